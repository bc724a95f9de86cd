"use strict";
const read = (id) => JSON.parse(document.getElementById(id).textContent);
const fail = (error) => { document.body.dataset.failed = String(error); };

// Numbers as evenhand's sentences write them: digits that matter near 0 and near 100%, halves to the even digit.
function percent(given) {
  const value = Number(given.toPrecision(12)), shown = 100 * value;
  const room = Number((Math.min(Math.abs(value), Math.abs(1 - value)) * 100).toFixed(12));
  const digits = room < 1e-9 ? 0 : Math.min(6, Math.max(0, 2 - Math.floor(Math.log10(room))));
  const up = shown.toFixed(digits), half = /^50*$/.test(shown.toFixed(digits + 50).slice(-50));
  return (half && Number(up.slice(-1)) % 2 ? (Number(up) - 10 ** -digits).toFixed(digits) : up) + "%";
}
const chosen = (value) => String(Number((100 * value).toPrecision(10))) + "%";

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

function explore(view) {
  const data = read("lorenz-data"), slider = document.getElementById("top");
  const which = document.getElementById("which"), output = document.getElementById("reading");
  slider.value = data.start;
  if (which) which.value = which.dataset.start;
  const show = () => {
    const curve = data.curves[which ? Number(which.value) : 0];
    const found = reading(curve, data.stops[Number(slider.value)]);
    const top = chosen(found.top), overlap = found.equal > 1 - found.top ? " (The two overlap.)" : "";
    output.textContent = `The top ${top} of ${data.units} hold ${percent(found.held)} of all ${data.amount}, ` +
      `as much as the bottom ${percent(found.equal)} together.${overlap}`;
    if (data.crowded) view.data("chosen", curve.population.map((x, i) => ({ x, y: curve.share[i] })));
    slider.setAttribute("aria-valuetext", `top ${top}`);
    view.signal("top", found.top).signal("held", found.held).signal("equal", found.equal)
      .signal("top_text", `top ${top}`).signal("equal_text", `bottom ${percent(found.equal)}`).run();
  };
  const drag = (event) => {
    const place = 1 - view.scale("x").invert(event.clientX - box().left - view.origin()[0]);
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

const config = read("theme");
const drawn = [...document.querySelectorAll("[data-spec]")].map((place) =>
  vegaEmbed(place, read(place.dataset.spec), { actions: false, renderer: "svg", ast: true, config })
    .then(({ view }) => { if (place.id === "spec-explorer-chart") explore(view); }));
Promise.all(drawn).then(() => { document.body.dataset.ready = ""; }, fail);
addEventListener("beforeprint", () => dispatchEvent(new Event("resize")));
