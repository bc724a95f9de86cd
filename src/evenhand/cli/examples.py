"""The verbs in the order of `evenhand --help`: a summary line, then examples and notes.

A verb that runs an audit needs an entry here and nothing else: its options come from the audit's declaration (a few have more,
in `verbs.EXTRAS`). Verbs that run no audit have an entry in `verbs.SMALL`, or a module of their name with
`add_arguments(parser)` and `run(args) -> int`.
"""

VERBS = {
    "demo": """\
Run the audits on generated data: a report per question, an index page, and the commands that made them.

example:
  evenhand demo --folder evenhand-demo
""",
    "look": """\
Show what is in a file, which questions it can answer, and the command for each.

example:
  evenhand look events.csv
  evenhand look events.csv --run --html report.html

Only column names, types and the first 100,000 rows are inspected; nothing is measured. The roles of columns are guesses: where
one is wrong, change the column name in the command.
""",
    "inequality": r"""
How unevenly is something spread over those who could receive it?

example:
  evenhand inequality events.parquet --unit author_id --amount impressions --population 102000000 --by source \
      -m gini -m 'top_share(p=0.01)' --html reach.html

The population is everyone who could have received something; a log holds only those who did:
  a number      every slice has that many units
  a file        a table of units (with the --by columns, each slice gets its own)
  SLICE=N,...   a number per slice
  none          only the units seen
""",
    "sources": """\
Which source drives the inequality? The Gini index split by where amounts come from.

example:
  evenhand sources events.parquet --unit author_id --amount impressions --source source --population authors.parquet

Per source: share of the total, own_gini, correlation with the rank of the total, contribution (these add up to the Gini
index), contribution_share (of the index), and marginal: 1% more from that source changes the index by 1% of this number.
To see which source drives the inequality, read marginal.
""",
    "decompose": r"""
Is the inequality within groups or between them?

example:
  evenhand decompose events.parquet --unit author_id --amount impressions --group country --population authors.parquet \
      --index 'atkinson(epsilon=0.5)'

gini: total = within + between + overlap; theil, ge(alpha=2): total = within + between;
atkinson(epsilon=0.5): 1 - total = (1 - within)(1 - between).
Units that received nothing need a group too: --population takes a table with the group column, GROUP=N,..., or none.
""",
    "explain": r"""
Who changed it? A change of inequality between two periods or arms, split over what made it.

examples:
  evenhand explain events.parquet --unit author_id --amount impressions --arm month --control 2026-09 --population none
  evenhand explain events.parquet --unit author_id --amount impressions --arm month --control 2026-09 --population none \
      --source source --group country --movers movers.csv

change = volume + entry + exit + stayed = volume + the sources = volume + the groups. volume is what more events alone do; the
others are Shapley values. without_largest and without_top_1% are the change without those that it goes with most.
""",
    "network": r"""
Is it the ranking or the network? Inequality of exposure split into followers, wiring and ranking.

examples:
  evenhand network views.parquet --edges follows.parquet --unit author --amount views --viewer viewer

observed = followers + wiring + ranking. followers: a neutral ranking on a rewired graph; wiring: what the real graph adds;
ranking: what the log adds to a neutral ranking on the real graph. Every viewer has as many impressions as in the log.
""",
    "criteria": """\
Which inequality metric suits this data? The criteria of the inequality paper, measured.

example:
  evenhand criteria events.parquet --unit author_id --amount impressions --population authors.parquet --by source

Each criterion of the paper's Table 2 is measured on this data, and shown with the number behind it and the judgment of the
authors. effect needs --by or several --amount.
""",
    "prefix": """\
Does the top of each ranking mirror the whole list, or is one viewpoint ranked higher?

examples:
  evenhand prefix serps.csv --request query --group stance --protected against
  evenhand prefix serps.csv --group stance --protected=-3 --protected=-2 --protected=-1 -m ndd -m ndkl
  evenhand prefix 'runs/*.gz' --group labels.qrels --protected con       TREC runs, labels in the format of judgments

Files that do not end in .parquet, .csv, .tsv or .jsonl are read as TREC runs (request Q0 item rank score tag). Their
ranks hold where scores never rise along them; elsewhere the score orders, ties by item, as in trec_eval.
""",
    "advise": """\
Which ranking metric should you trust for these rankings, and why?

examples:
  evenhand advise --balance medium --bias high
  evenhand advise --goal opportunity --sparse
  evenhand advise serps.csv --request query --group stance --protected against --bias medium

The recommended metric comes first. With rankings, the balance is measured; `chance` is the value of a typical list in random
order, and `found` is how often a list with the expected bias would differ significantly from random order. `effect` is the mean over
your lists less chance, in standard deviations between lists; `stability` is how much that mean varies from sample to sample.
""",
    "exposure": """\
Who is exposed in rankings, compared with a target, another group, or relevance?

examples:
  evenhand exposure recs.parquet --request user --groups artist_gender --protected female
  evenhand exposure 'runs/*.gz' --groups docs.csv --relevance 2020.qrels --protected developing -m awrf -m eel

Files that do not end in .parquet, .csv, .tsv or .jsonl are TREC runs or, for --relevance, judgments (qrels).
trec-fair: before a path reads a file of the TREC Fair Ranking track (runs, ragged groups, judged queries).
rollup(ITEMS, PROVIDERS) maps items to groups through providers: one file with item and provider (weight=COLUMN for unequal
parts), one with provider and group; an item with several providers is shared among their groups.
rollup(FILMS, group=genres, split='|') shares an item among the labels in one text column.
shares(f, m, of=FILE, counts=True) turns counts of authors per group into shares.
--target may be population, equal, ranking, relevant, or shares: f=0.5,m=0.5
""",
    "pairwise": """\
Is the more relevant item ranked higher, whatever its group?

examples:
  evenhand pairwise scores.parquet --request user --groups artist_gender --relevance test.csv --protected female
  evenhand pairwise scores.csv --system model --groups books.csv --relevance rating --protected f --negatives 10000

Pass everything that was scored, not a truncated list: pairs need items on both sides of the cut.
""",
    "agreement": """\
Do the metrics agree on which system is fairer? From saved results of several systems.

example:
  evenhand exposure 'runs/*.gz' --groups docs.csv --relevance 2020.qrels --protected developing --format json --output e.json
  evenhand agreement e.json --plot agreement=heat.svg

Several results are joined by system. Systems are those of --system, or the runs themselves.
""",
    "sensitivity": """\
Does the order of systems depend on the choice of attention model, target, metric or rule?

examples:
  evenhand sensitivity exposure 'runs/*.gz' --groups docs.csv --protected developing -m awrf -m eed
      --vary attention=log --vary 'attention=rbp(patience=0.8)' --vary target=population --vary target=equal

VERB is exposure, prefix or pairwise, followed by its options. Every --vary adds a choice, and all combinations are tried.
""",
    "outcome-test": r"""
Do candidates with the same score have the same outcomes in every group?

examples:
  evenhand outcome-test invites.parquet --score score --outcome accepted --group gender --request viewer_id --reference male
  evenhand outcome-test jobs.parquet --score score --outcome applied --group gender --kind classification --threshold 0.4 \
      --request job_id --html bar.html

A positive gap means that the group does better than the reference at the same score: the score underrates it.
""",
    "counterfactual": r"""
Who would gain if slots went to the candidates with the highest predicted outcomes?

examples:
  evenhand counterfactual jobs.parquet --score score --outcome applied --group gender --treated notified --request job_id \
      --kind classification --threshold 0.4 --seed 7

Runs the outcome test first, with the same options, and predicts with its regression lines. Never read a gain without the
range expected by chance (the ..._null rows).
""",
    "recalibrate": """\
Correct scores so that a score means the same outcome in every group: learn from one file, apply to another.

examples:
  evenhand recalibrate seen.parquet --score score --group gender --outcome accepted --model fair.json
  evenhand recalibrate new.parquet --score score --group gender --model fair.json --output corrected.parquet

With --outcome, it learns a model and writes it (JSON); without, it applies the model and adds the column recalibrated.
The corrected table goes to standard output as CSV, or to a file that ends in .csv, .parquet or .jsonl.
""",
    "recommender": """\
Does a recommender serve groups of users, and items, even-handedly?

examples:
  evenhand recommender scores.npz --user-groups users.csv --versus a --protected b --top 10 --html bias.html
  evenhand recommender scores.parquet --relevant clicks.parquet --user-groups users.csv --top 10 --items 100000
  evenhand recommender log.parquet --by country --system model --user-groups users.csv --top 10 --items 100000

Scores are a matrix (.npz of numpy or scipy, .npy; users are numbered from 0) or a table with a row per user and item.
--user-groups is a table with user and group, a table with group only (a row per row of the matrix), or a column of the scores.
--by and --system are columns of a table; every slice and every recommender is measured separately, on its own users.
""",
    "experiment": r"""
Did a change make it more even? Compares the arms of an experiment, or two periods, by what was randomised.

examples:
  evenhand experiment log.parquet --unit author_id --amount views --arm variant --randomized viewer_id --population none
  evenhand experiment log.parquet --unit author_id --amount views --arm month --randomized none --control 2026-09 --population none
  evenhand experiment last_week.parquet --unit author_id --amount views --power --randomized viewer_id --population none \
      --shares control=0.9,new=0.1

--randomized is the column whose values were randomly assigned to arms:
  a column      viewers, requests or sessions: arms have the same units, and whole viewers are re-assigned
  the unit      authors: arms have different units, which are re-assigned
  none          nothing was randomised (two periods, two sources): each unit is compared with itself
""",
    "rebalance": """\
Find the most even exposure for each loss of relevance, as boosts or new lists.

examples:
  evenhand rebalance candidates.parquet --providers publisher --top 10 --html fix.html
  evenhand rebalance candidates.parquet --providers publisher --top 10 --strength 0.1 --boosts boosts.csv --rankings new.parquet

Files of boosts and rankings end in .csv, .parquet or .jsonl, and are written for the highest strength unless --take names
another.
""",
    "rerank": """\
Make new lists from scores with a known re-ranker: boosts, FA*IR, DetConstSort, calibrated lists.

examples:
  evenhand rerank candidates.parquet --method boosts --boosts boosts.csv --groups publisher --top 10 --output new.parquet
  evenhand rerank candidates.parquet --method 'fa_star_ir(p=0.3, alpha=0.1)' --groups gender --protected f --top 20

The answer is a table with request, item and rank: CSV on standard output, or a file that ends in .csv, .parquet or .jsonl.
""",
    "compare": """\
Did it change, and is the change statistically significant? From two saved results.

example:
  evenhand inequality monday.parquet --unit author --amount views --population none --format json --output monday.json
  evenhand inequality friday.parquet --unit author --amount views --population none --format json --output friday.json
  evenhand compare monday.json friday.json

The estimate is the second minus the first. A saved result does not list its units or requests, so nobody can tell whether the
two overlap: for an interval and p, pass --independent, which states that they do not. For arms and periods, see evenhand
experiment. For rankers on the same requests, audit them in one table with --system and add --systems.
""",
    "run": """\
Run the audits of a plan file, in a build or on a schedule; exit code 1 if a check fails.

example plan.toml:
  audit = "inequality"
  table = "events.parquet"          # paths are relative to the plan
  unit = "author_id"
  amount = "impressions"
  population = "authors.parquet"    # or a number, or "none"
  by = "source"
  metrics = ["gini", "top_share(p=0.01)"]
  rng = 7
  check = ["gini <= 0.9"]
  outputs = ["reach.html", "reach.json"]

  evenhand run plan.toml --baseline last.json --check 'gini <= baseline + 0.01' --junit checks.xml
  evenhand run plan.toml --history reach.parquet --at 2026-11-16     # ${DATE} in the plan is that day
  evenhand run plan.toml --history reach.parquet --each day          # every day with files that is not in the history yet
""",
    "plan": """\
Write a plan file for evenhand run from a command.

examples:
  evenhand plan inequality events.parquet --unit author_id --amount impressions --population none > plan.toml
  evenhand run plan.toml
  evenhand plan --check plan.toml               # can it be run? Reads no data; also a pre-commit hook
  evenhand plan --schema > plan.schema.json     # for editors that check TOML; also shipped with the package
""",
    "sql": r"""
Print the query to run in a warehouse that evenhand cannot reach; the audit needs only its few rows.

example:
  evenhand sql inequality --table shop.events --dialect bigquery --unit author_id --amount impressions --whole impressions > query.sql
  evenhand inequality --tally rows.csv --unit author_id --amount impressions --population 102000000

This is the query that the local engine runs, in the SQL of the warehouse. Run it where the table is, save the rows (CSV or
Parquet), and pass them to the verb instead of the table: numbers, intervals and report are the same. If a query depends on the
rows of another, pass those with --tally to print the next one. Options after the verb are those of the verb.
""",
    "impact": """\
Is every category selected as often? Selection rates and impact ratios, with intersections.

examples:
  evenhand impact candidates.csv --group sex --group race --selected hired --html ratios.html --profile ll144

The impact ratio is the rate of a category over the highest rate; with --score the rate is the share above the median score.
""",
    "history": """\
What changed, and when? A history as a page or as lines, with alarms.

examples:
  evenhand run plan.toml --history reach.parquet --at 2026-11-16
  evenhand history reach.parquet --html trend.html
  evenhand history reach.parquet --alarm 0.05 --format csv
  evenhand history reach.parquet --format openmetrics --output reach.prom     # the latest numbers, for Prometheus
  evenhand history reach.parquet --format grafana --output dashboard.json     # a dashboard that reads them
""",
    "verify": """\
Make a saved result again from its plan and its inputs, and compare.

examples:
  evenhand verify result.json
  evenhand verify result.json --table log.parquet                         the table has moved, or was a dataframe

Files are looked for by the names in the result: from here, then from the folder of the result, then by their file name in it.
Numbers are the same if they agree to nine digits: other processors add up in another order.
Exit codes: 0 the same, 1 another number or other bytes of an input, 2 it cannot be made again.
""",
    "metrics": """\
Explain each metric, and what other tools compute under the same name.

examples:
  evenhand metrics                   every metric, one per line, by the verb that computes it
  evenhand metrics gini              one metric in full, with what other tools compute under the same name
  evenhand metrics gini --compare    every tool's number on the same tiny inputs
  evenhand metrics --table           ranking metrics: which need relevance, take soft or several groups, and where they break
""",
    "conformance": """\
Does an implementation compute what the definitions say? Exact vectors, and the score of any tool.

examples:
  evenhand conformance list gini                          the vectors of one metric: input, exact value, why
  evenhand conformance run --tool mypackage.check:adapter       score your own implementation
  evenhand conformance run --help                         all options

The kit is a package of its own, without dependencies: pip install ./conformance in a copy of the repository.
Exit codes: 0 the tool agrees wherever it offers a metric, 1 it does not, 2 it cannot be run.
""",
    "study": """\
Rerun the study of a paper: each published finding next to what comes out.

example:
  evenhand study inequality --html study-inequality.html
  evenhand study inequality --data log.parquet --unit author --amount views --amount likes --source via --followers followers
  evenhand study outcome --data jobs.parquet --score score --outcome applied --group gender --request job --html bar.html
  evenhand study fair-ranking --data trec-fair-2019       on files of the TREC Fair Ranking track
  evenhand study fair-ranking --ratings ml-100k/u.data    four recommenders of LensKit learn from ratings (extra: lenskit)
""",
    "completion": """\
Complete verbs, options, choices and the columns of your files in bash, zsh and fish.

example:
  eval "$(evenhand completion bash)"           # in ~/.bashrc
  eval "$(evenhand completion zsh)"            # in ~/.zshrc
  evenhand completion fish | source            # in ~/.config/fish/config.fish
""",
}
