// The page: keeps what the server has sent, and shows it.

import { arrange, h, setAttribute, setText } from "./dom.js";
import { Feed, ask } from "./feed.js";
import { TimeChart } from "./charts.js";
import { queryTable, sicNow, siteTable } from "./tables.js";
import { FlowMap } from "./map.js";
import { Panel } from "./panel.js";
import { askForToken } from "./token.js";
import { beginTheme } from "./theme.js";
import * as text from "./text.js";

const HISTORY_SECONDS = 900;
const MOST_MOMENTS = 900; // of fairness, one a second
const SPARK_MOMENTS = 40;

const at = (id) => document.getElementById(id);

/** All that is known, by key, as the server has sent it. */
const known = { figures: new Map(), now: 0, state: "waiting" };
const fairness = [[], [], []];
const late = new Map(); // of each query, its SIC of late
const lists = { sites: new Map(), queries: new Map() };

const panel = new Panel(at("panel"), known, lists);
const queries = queryTable(at("query-list"), (key) => panel.open("query", key), (name) => late.get(name) ?? []);
const sites = siteTable(at("site-list"), (key) => panel.open("site", key));
const map = new FlowMap(at("map-picture"), (name) => panel.open("site", name));
const chart = new TimeChart(at("fairness-chart"), {
  label: "Fairness over time",
  unit: "share",
  range: [0, 1],
  height: 230,
  series: [
    { label: "mean SIC", colour: "--accent", write: (value) => value.toFixed(2) },
    { label: "Jain's index", colour: "--second", write: (value) => value.toFixed(2), dash: [6, 4] },
  ],
});
beginTheme(at("theme"), () => { chart.draw(); panel.redraw(); });
at("filter").addEventListener("input", render);
at("token").addEventListener("click", () => askForToken(at("token-dialog"), "").then(again));

const feed = new Feed({ begun, frame, state });
feed.run();

function again(given) {
  if (given) feed.again();
}

/** A stream begins: nothing that was known before counts. */
function begun() {
  known.figures.clear();
  ask(`fairness?since=${Date.now() / 1000 - HISTORY_SECONDS}`).then(pastFairness, () => {});
  ask(`history?since=${Date.now() / 1000 - 300}`).then(pastSic, () => {});
}

function pastFairness({ moments }) {
  const first = fairness[0][0] ?? Number.POSITIVE_INFINITY;
  const before = moments.filter((moment) => moment.at < first);
  fairness[0].unshift(...before.map((moment) => moment.at));
  fairness[1].unshift(...before.map((moment) => moment.mean_sic));
  fairness[2].unshift(...before.map((moment) => moment.jain));
  chart.show(fairness);
}

function pastSic(told) {
  const found = new Map();
  for (const moment of told.queries) {
    if (moment.sic_now === null) continue;
    if (!found.has(moment.query)) found.set(moment.query, []);
    found.get(moment.query).push(moment.sic_now);
  }
  for (const [name, values] of found) late.set(name, [...values, ...(late.get(name) ?? [])].slice(-SPARK_MOMENTS));
}

function frame({ at: now, set, gone }) {
  known.now = now;
  for (const key of gone) known.figures.delete(key);
  for (const [key, value] of Object.entries(set)) {
    const before = known.figures.get(key);
    known.figures.set(key, value);
    if (key.startsWith("query:") && before?.heard !== value.heard) noteSic(value);
  }
  if (known.figures.get("fairness")?.mean_sic !== null) noteFairness(now, known.figures.get("fairness"));
  lists.sites = listed("site:");
  lists.queries = listed("query:");
  requestAnimationFrame(render);
}

function listed(prefix) {
  const found = new Map();
  for (const [key, value] of known.figures) if (key.startsWith(prefix)) found.set(key.slice(prefix.length), value);
  return found;
}

function noteSic(query) {
  const now = sicNow(query);
  if (now === null || now === undefined) return;
  const values = late.get(query.query) ?? [];
  values.push(now);
  late.set(query.query, values.slice(-SPARK_MOMENTS));
}

function noteFairness(now, told) {
  if (told === undefined) return;
  fairness[0].push(now);
  fairness[1].push(told.mean_sic);
  fairness[2].push(told.jain);
  const old = fairness[0].findIndex((moment) => moment >= now - HISTORY_SECONDS);
  const drop = Math.max(old, fairness[0].length - MOST_MOMENTS);
  if (drop > 0) fairness.forEach((column) => column.splice(0, drop));
}

function render() {
  const filter = at("filter").value.trim().toLowerCase();
  setText(at("about"), known.figures.get("about")?.name ?? "");
  setAttribute(document.body, "data-kind", known.figures.get("about")?.kind ?? "federation");
  queries.show(lists.queries, (query) => query.query.toLowerCase().includes(filter), "No query runs yet.");
  sites.show(lists.sites, () => true, "No site has been heard of yet.");
  map.show([...lists.sites.values()].sort((one, other) => (one.site < other.site ? -1 : 1)));
  if (fairness[0].length > 0) chart.show(fairness);
  tiles();
  events(known.figures.get("events") ?? []);
  panel.render();
}

function tiles() {
  const all = [...lists.sites.values()];
  const alive = all.filter((site) => !site.silent);
  const [admitted, shed] = ["throughput", "dropped"].map((name) => alive.reduce((sum, site) => sum + site.statistics[name], 0));
  const told = known.figures.get("fairness") ?? {};
  const silent = all.length - alive.length;
  const shown = [
    ["Sites up", `${alive.length}`, `of ${all.length}`, silent > 0 ? "bad" : ""],
    ["Queries", `${lists.queries.size}`, "", ""],
    ["Mean SIC", text.sic(told.mean_sic), "", ""],
    ["Jain's index", text.sic(told.jain), "", ""],
    ["Admitted", text.count(admitted), "tuples/s", ""],
    ["Shed", text.count(shed), admitted + shed > 0 ? `tuples/s · ${text.percent(shed / (admitted + shed))}` : "tuples/s", shed > 0 ? "busy" : ""],
  ];
  const place = at("tiles");
  if (place.childElementCount === 0) place.append(...shown.map(() => h("div", {}, h("dt"), h("dd", {}, h("b"), h("small")))));
  shown.forEach(([title, value, unit, tone], n) => {
    const tile = place.children[n];
    setText(tile.firstChild, title);
    setText(tile.lastChild.firstChild, value);
    setText(tile.lastChild.lastChild, unit);
    setAttribute(tile, "data-state", tone);
  });
}

const BAD = new Set(["site-silent", "fragment-failed"]);
const BUSY = new Set(["overload-began", "held-back"]); // what a site is for, or what only an option holds up
const tone = ({ kind }) => (BAD.has(kind) ? "bad" : BUSY.has(kind) ? "busy" : "good");

function events(told) {
  const place = at("event-list");
  const shape = JSON.stringify(told.at(-1) ?? []) + told.length;
  if (place.dataset.shape === shape) return;
  place.dataset.shape = shape;
  arrange(place, told.toReversed().map((event) => h("li", { "data-state": tone(event) }, h("time", { datetime: new Date(event.at * 1000).toISOString() }, text.clock(event.at)), h("span", {}, event.text))));
}

const SAID = { waiting: "connecting", live: "live", lost: "not connected", stranger: "needs a token" };

function state(now, why = "") {
  if (now === known.state) return;
  known.state = now;
  setText(at("state"), SAID[now]);
  setAttribute(at("state"), "data-state", now);
  const banner = at("banner");
  banner.hidden = now !== "lost" || known.now === 0;
  if (!banner.hidden) setText(banner, `The server does not answer; this is what it told at ${text.clock(known.now)}. The page goes on trying.`);
  setAttribute(document.body, "data-stale", now === "live" ? null : "");
  if (now === "stranger") askForToken(at("token-dialog"), why).then(again);
}
