// Shows one query or one site from inside, over the page.

import { changeLatency, changeTerms, numbersForm } from "./changes.js";
import { arrange, h, setText } from "./dom.js";
import { ask } from "./feed.js";
import { Inside } from "./inside.js";
import { TimeChart } from "./charts.js";
import { modelled, shedNow, shedOf, sicNow, siteStanding } from "./tables.js";
import * as text from "./text.js";

const HISTORY_SECONDS = 900;
const INSIDE_EVERY_MS = 2000;

/** Is the dialog. What it shows is in the address, so that it survives a reload. */
export class Panel {
  constructor(dialog, known, lists) {
    Object.assign(this, { dialog, known, lists });
    this.shown = null;
    dialog.addEventListener("close", () => this.closed());
    dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
    addEventListener("hashchange", () => this.follow());
    this.follow();
  }

  open(kind, key) {
    location.hash = `${kind}=${encodeURIComponent(key)}`;
  }

  follow() {
    const found = /^#(query|site)=(.+)$/.exec(location.hash);
    if (found === null) {
      if (this.dialog.open) this.dialog.close();
      return;
    }
    this.show(found[1], decodeURIComponent(found[2]));
  }

  show(kind, key) {
    this.shown?.view.end();
    const view = kind === "query" ? new QueryView(this, key) : new SiteView(this, key);
    this.shown = { kind, key, view };
    this.dialog.replaceChildren(
      h("header", {}, h("h2", { id: "panel-title" }, key), h("button", { type: "button", class: "quiet", "aria-label": "Close", click: () => this.dialog.close() }, "✕")),
      view.element);
    if (!this.dialog.open) this.dialog.showModal();
    this.render();
  }

  closed() {
    this.shown?.view.end();
    this.shown = null;
    if (location.hash !== "") history.replaceState(null, "", location.pathname);
  }

  render() {
    this.shown?.view.render();
  }

  redraw() {
    this.shown?.view.redraw();
  }
}

const LONG = new Set(["Refused", "Address"]);

/** Figures with their names, of which only those that differ are written. */
class Figures {
  constructor() {
    this.element = h("dl", { class: "figures" });
    this.cells = new Map();
  }

  show(pairs) {
    for (const [title, value] of pairs) {
      if (!this.cells.has(title)) {
        const cell = h("dd");
        this.element.append(h("div", { class: LONG.has(title) ? "long" : "" }, h("dt", {}, title), cell));
        this.cells.set(title, cell);
      }
      setText(this.cells.get(title), value);
    }
  }
}

class QueryView {
  constructor(panel, key) {
    Object.assign(this, { panel, key });
    this.figures = new Figures();
    this.state = h("p", { class: "lead" });
    this.fragments = h("tbody");
    this.terms = numbersForm("Terms", [
      { name: "weight", title: "Weight", min: 0.001, max: 1000, step: "any" },
      { name: "floor", title: "Floor", min: 0, max: 1, step: "any" },
      { name: "ceiling", title: "Ceiling", min: 0, max: 1, step: "any" },
    ], (given) => changeTerms(key, given));
    const place = h("div", { class: "chart" });
    this.element = h("div", { class: "inside" }, this.state, this.figures.element,
      h("h3", {}, "SIC over time"), place,
      h("h3", {}, "Change its terms"), this.terms.element,
      h("div", { class: "federation" }, h("h3", {}, "Its fragments"),
        h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Fragments" }, h("table", {},
          h("thead", {}, h("tr", {}, ["Fragment", "Site", "Arrives/s", "Shed", "Sends/s", "Sends to"].map((title, n) => h("th", { scope: "col", class: n > 1 && n < 5 ? "number" : "" }, title)))),
          this.fragments))));
    this.chart = new TimeChart(place, {
      label: `SIC of ${key}`, unit: "SIC", range: [0, 1], height: 170,
      series: [
        { label: "now", colour: "--accent", write: (value) => value.toFixed(2) },
        { label: "mean", colour: "--second", write: (value) => value.toFixed(2), dash: [6, 4] },
      ],
    });
    this.data = [[], [], []];
    this.heard = 0;
    ask(`history?query=${encodeURIComponent(key)}&since=${Date.now() / 1000 - HISTORY_SECONDS}`).then((told) => this.past(told), () => {});
  }

  past({ queries }) {
    const first = this.data[0][0] ?? Number.POSITIVE_INFINITY;
    const before = queries.filter((moment) => moment.at < first);
    this.data = [
      [...before.map((moment) => moment.at), ...this.data[0]],
      [...before.map((moment) => moment.sic_now), ...this.data[1]],
      [...before.map((moment) => moment.sic), ...this.data[2]],
    ];
    this.chart.show(this.data);
  }

  render() {
    const query = this.panel.lists.queries.get(this.key);
    if (query === undefined) {
      setText(this.state, "This query does not run now.");
      return;
    }
    const now = sicNow(query);
    setText(this.state, query.silent ? `Its site ${query.site} is silent; these figures are old.` : now === null || now === undefined ? "It has no result yet." : `Its result holds ${text.percent(now)} of what its sources send.`);
    this.figures.show([
      ["SIC now", text.sic(now, 3)], ["Mean SIC", text.sic(query.sic, 3)],
      ["Arrived", text.exact(query.arrived)], ["Admitted", text.exact(query.admitted)],
      ["Shed", `${text.exact(query.shed)} (${text.percent(shedOf(query))})`],
      ["Latency p95", text.milliseconds(query.latency_ms.p95) + (modelled(query) && ", modelled")], ["Rows of results", text.exact(query.rows)],
      ["Weight", `${query.weight}`], ["Floor", query.floor > 0 ? text.sic(query.floor) : "none"], ["Ceiling", query.ceiling === null ? "none" : text.sic(query.ceiling)],
      ["Root at", query.site],
    ]);
    this.terms.show([`${query.weight}`, `${query.floor}`, query.ceiling === null ? "none" : `${query.ceiling}`]);
    if (query.heard !== this.heard && now !== null && now !== undefined) {
      this.heard = query.heard;
      [query.heard, now, query.sic].forEach((value, n) => this.data[n].push(value));
      this.chart.show(this.data);
    }
    arrange(this.fragments, this.rows());
  }

  rows() {
    const parts = [...this.panel.lists.sites.values()].flatMap((site) => site.fragments.filter((fragment) => fragment.query === this.key).map((fragment) => ({ site, fragment })));
    const last = ({ fragment }) => Number(fragment.sends_to.length === 0); // the one that has the result
    return parts.sort((one, other) => last(one) - last(other)).map(({ site, fragment }) =>
      h("tr", { "data-old": site.silent }, h("th", { scope: "row" }, fragment.fragment),
        h("td", {}, h("a", { href: `#site=${encodeURIComponent(site.site)}` }, site.site)),
        h("td", { class: "number" }, text.count(fragment.arrived_per_second)),
        h("td", { class: "number" }, text.percent(shareShed(fragment))),
        h("td", { class: "number" }, text.count(fragment.rows_per_second)),
        h("td", {}, fragment.sends_to.map((id) => id.split("@")[0]).join(", ") || "the result")));
  }

  redraw() {
    this.chart.draw();
  }

  end() {
    this.chart.destroy();
  }
}

const shareShed = (fragment) => (fragment.arrived > 0 ? Math.max(0, 1 - fragment.admitted / fragment.arrived) : null);

class SiteView {
  constructor(panel, key) {
    Object.assign(this, { panel, key });
    this.figures = new Figures();
    this.state = h("p", { class: "lead" });
    this.inside = new Inside();
    this.latency = numbersForm("Latency", [{ name: "seconds", title: "Latency to hold, in seconds", min: 0.001, max: 86400, step: "any" }], (given) => changeLatency(key, given));
    this.element = h("div", { class: "inside" }, this.state, this.figures.element,
      h("h3", {}, "Its gates from inside"), this.inside.element,
      h("h3", {}, "Change its latency"), this.latency.element);
    this.look();
    this.timer = setInterval(() => this.look(), INSIDE_EVERY_MS);
  }

  async look() {
    const site = this.panel.lists.sites.get(this.key);
    if (site === undefined || site.silent) return;
    try {
      const told = await ask(`sites/${encodeURIComponent(this.key)}/inside`);
      this.inside.show(told);
    } catch (error) {
      this.inside.failed(error.message);
    }
  }

  render() {
    const site = this.panel.lists.sites.get(this.key);
    if (site === undefined) {
      setText(this.state, "Nothing is known of this site.");
      return;
    }
    const told = site.statistics;
    const { said } = siteStanding(site);
    this.latency.show([told.latency_target_ms > 0 ? `${told.latency_target_ms / 1000}` : ""]);
    setText(this.state, site.silent ? `Silent for ${text.ago(this.panel.known.now - site.heard)}.` : `It ${said === "late" ? "is late" : said}.`);
    this.figures.show([
      ["Busy", text.percent(told.utilisation)], ["Capacity", `${text.count(told.capacity)} tuples/s`],
      ["Admitted", `${text.count(told.throughput)} tuples/s`], ["Shed", `${text.count(told.dropped)} tuples/s (${text.percent(shedNow(site))})`],
      ["Latency p95", text.milliseconds(told.latency_ms) + (modelled(told) && ", modelled")], ["Target", text.target(told.latency_target_ms)],
      ["Backlog", text.exact(told.backlog)], ["Average SIC", text.sic(told.average_sic, 3)],
      ["Fragments", text.exact(told.fragments_running)], ["Connected", text.exact(told.fragments_connected)],
      ["Refused", Object.entries(told.refused).map(([reason, n]) => `${n} ${reason}`).join(", ") || "nothing"],
      ["Address", site.address],
    ]);
  }

  redraw() {}

  end() {
    clearInterval(this.timer);
  }
}
