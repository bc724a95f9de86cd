"use strict";
(() => {  // Vega brings names of its own
const fail = (error) => { document.body.dataset.failed = String(error); };

// Numbers as evenhand's sentences write them: digits that matter near 0 and near 100%, halves to the even digit.
function percent(given) {
  const value = Number(given.toPrecision(12)), shown = 100 * value;
  const room = Number((Math.min(Math.abs(value), Math.abs(1 - value)) * 100).toFixed(12));
  const digits = room < 1e-9 ? 0 : Math.min(6, Math.max(0, 2 - Math.floor(Math.log10(room))));
  const up = shown.toFixed(digits), half = /^50*$/.test(shown.toFixed(digits + 50).slice(-50));
  return (half && Number(up.slice(-1)) % 2 ? (Number(up) - 10 ** -digits).toFixed(digits) : up) + "%";
}
const plain = { useGrouping: false, maximumSignificantDigits: 3 };
const chosen = (value) => Number((100 * value).toPrecision(3)).toLocaleString("en-US", plain) + "%";
function counted(units) {
  const off = Math.abs(units - Math.round(units)) > 0.05 && units < 10;
  const down = Math.floor(units), even = units - down === 0.5 ? down + (down % 2) : Math.round(units);
  return (off ? "about " : "") + even.toLocaleString("en-US");
}

// The polygon: linear between its corners, in both directions.
function at(xs, ys, x) {
  let i = 1;
  while (i < xs.length - 1 && xs[i] < x) i += 1;
  const width = xs[i] - xs[i - 1];
  return width > 0 ? ys[i - 1] + (ys[i] - ys[i - 1]) * (x - xs[i - 1]) / width : ys[i];
}
function reading(curve, top) {
  const held = Math.max(0, 1 - at(curve.population, curve.share, 1 - top));
  return { top, held, equal: held > 0 ? at(curve.share, curve.population, held) : 0 };
}

function explore(view, data) {
  const slider = document.getElementById("top");
  const which = document.getElementById("which"), output = document.getElementById("reading");
  const fromTheTop = (x, y) => ({ x: 1 - x, y: 1 - y });
  slider.value = data.start;
  if (which) which.value = which.dataset.start;
  const show = () => {
    const curve = data.curves[which ? Number(which.value) : 0];
    const found = reading(curve, data.stops[Number(slider.value)]);
    const top = chosen(found.top), overlap = found.equal > 1 - found.top;
    const others = overlap ? "more than all others together" : `as much as the bottom ${percent(found.equal)}`;
    const many = `${counted(found.top * curve.many)} of ${Math.round(curve.many).toLocaleString("en-US")}`;
    output.textContent = `${curve.name ? `For ${curve.name}, the` : "The"} top ${top} of ${data.units} (${many}) get ` +
      `${percent(found.held)} of all ${data.amount}, ${others}.`;
    if (data.crowded) view.data("chosen", curve.population.map((x, i) => fromTheTop(x, curve.share[i])).filter(({ x }) => x > 0));
    slider.setAttribute("aria-valuetext", `top ${top}`);
    view.signal("top", found.top).signal("held", found.held).signal("top_text", `top ${top}`).run();
  };
  const drag = (event) => {
    event.preventDefault();
    const drawn = chart.querySelector("svg"), scaled = drawn.viewBox.baseVal.width / box().width;
    const place = view.scale("x").invert((event.clientX - box().left) * scaled - view.origin()[0]);
    const gap = (stop) => Math.abs(Math.log(stop) - Math.log(Math.max(place, 1e-9)));
    slider.value = data.stops.reduce((best, stop, i) => (gap(stop) < gap(data.stops[best]) ? i : best), 0);
    show();
  };
  const chart = document.querySelector("#spec-explorer-chart"), box = () => chart.querySelector("svg").getBoundingClientRect();
  chart.addEventListener("pointerdown", (event) => { drag(event); chart.setPointerCapture(event.pointerId); });
  chart.addEventListener("pointermove", (event) => { if (event.buttons & 1) drag(event); });
  slider.addEventListener("input", show);
  if (which) which.addEventListener("change", show);
  show();
}

const colours = document.getElementById("colours");
if (colours) colours.addEventListener("change", () => {
  if (colours.value) document.documentElement.dataset.theme = colours.value;
  else delete document.documentElement.dataset.theme;
});

const copy = document.getElementById("copy");
if (copy) copy.addEventListener("click", () => {
  getSelection().selectAllChildren(document.getElementById("paragraph"));
  copy.textContent = document.execCommand("copy") ? "Copied" : "Press Ctrl-C";
});
for (const find of document.querySelectorAll(".find")) find.addEventListener("input", () => {
  const words = find.value.toLowerCase();
  for (const row of find.nextElementSibling.querySelectorAll("tbody tr")) {
    row.hidden = !row.textContent.toLowerCase().includes(words);
  }
});
function unfold(row) {
  if (row.nextElementSibling?.classList.contains("more")) { row.nextElementSibling.remove(); return; }
  const more = document.createElement("tr"), cell = more.insertCell();
  more.className = "more";
  cell.colSpan = row.cells.length;
  cell.textContent = row.dataset.more;
  row.after(more);
}
for (const row of document.querySelectorAll("tr[data-more]")) {
  row.tabIndex = 0;
  row.addEventListener("click", () => { if (!getSelection().toString()) unfold(row); });
  row.addEventListener("keydown", (event) => { if (event.key === "Enter") unfold(row); });
}

// The charts are there already, standing still. Vega is unpacked and draws them again, to fit the screen and answer the pointer.
async function unpacked(id) {
  const bytes = Uint8Array.from(atob(document.getElementById(id).textContent), (c) => c.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
}
async function draw() {
  const places = [...document.querySelectorAll("[data-spec]")];
  if (places.length) {
    const code = document.createElement("script");
    code.textContent = await unpacked("vega");
    document.head.append(code);
    const held = JSON.parse(await unpacked("data"));
    const options = { actions: false, renderer: "svg", ast: true, config: held.theme };
    await Promise.all(places.map((place) => vegaEmbed(place, held[place.dataset.spec],
      { ...options, bind: document.getElementById(`${place.dataset.spec}-bound`) || undefined })
      .then(({ view }) => { if (place.id === "spec-explorer-chart") explore(view, held["lorenz-data"]); })));
  }
  for (const part of document.querySelectorAll(".scripted")) part.hidden = false;
}
draw().then(() => { document.body.dataset.ready = ""; }, fail);
addEventListener("beforeprint", () => dispatchEvent(new Event("resize")));
})();
