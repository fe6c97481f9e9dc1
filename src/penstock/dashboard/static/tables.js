// Shows queries and sites as tables, of which only the cells that differ are written.

import { arrange, h, setAttribute, setText, svg } from "./dom.js";
import { sparkline } from "./charts.js";
import * as text from "./text.js";

const LAST = Number.POSITIVE_INFINITY;
const MANY_ROWS = 50; // from here on a browser's time is spared, and rows do not jump all the time
const ORDER_MS = 5000; // how long many rows keep their places

/** Is a table with a row for each figure, sorted by one of its columns. */
class LiveTable {
  /** A column has `title`, `by` (what it is sorted by), `cell` (makes its content), `write` (fills it). */
  constructor(place, { label, columns, sorted, open }) {
    this.columns = columns;
    this.sorted = sorted;
    this.open = open;
    this.rows = new Map();
    this.body = h("tbody");
    this.heads = columns.map((column) => this.head(column));
    this.nothing = h("p", { class: "nothing" });
    place.replaceChildren(
      h("table", { "aria-label": label }, h("thead", {}, h("tr", {}, this.heads)), this.body),
      this.nothing,
    );
    this.body.addEventListener("keydown", (event) => this.step(event));
  }

  head(column) {
    const button = h("button", { type: "button", click: () => this.sortBy(column) }, column.title);
    return h("th", { scope: "col", class: column.kind ?? "", title: column.help ?? null }, button);
  }

  sortBy(column) {
    const downwards = this.sorted.column === column.title ? !this.sorted.downwards : column.downwards ?? false;
    this.sorted = { column: column.title, downwards };
    this.order();
  }

  /** Shows these figures, by key; `wanted` says which of them. */
  show(figures, wanted, nothing) {
    let others = false; // whether other rows are shown than before
    for (const key of this.rows.keys()) if (!figures.has(key)) others = this.rows.delete(key);
    for (const [key, figure] of figures) {
      const row = this.rows.get(key) ?? this.add(key);
      const before = row.wanted;
      row.wanted = wanted(figure);
      others ||= row.wanted !== before;
      if (row.figure === figure) continue;
      row.figure = figure;
      setAttribute(row.element, "data-old", figure.silent ? "" : null);
      this.columns.forEach((column, n) => column.write(row.cells[n], figure, row));
    }
    setText(this.nothing, this.body.childElementCount === 0 && figures.size === 0 ? nothing : "");
    const many = figures.size > MANY_ROWS;
    setAttribute(this.body.parentElement, "data-many", many ? "" : null);
    if (others || !many || performance.now() - this.ordered > ORDER_MS) this.order();
  }

  add(key) {
    const row = { key };
    row.cells = this.columns.map((column) => column.cell(() => this.open(key)));
    row.element = h("tr", {}, this.columns.map((column, n) =>
      h(n === 0 ? "th" : "td", { class: column.kind ?? "", scope: n === 0 ? "row" : null }, row.cells[n])));
    this.rows.set(key, row);
    return row;
  }

  order() {
    this.ordered = performance.now();
    const column = this.columns.find((one) => one.title === this.sorted.column);
    const sign = this.sorted.downwards ? -1 : 1;
    const rows = [...this.rows.values()].filter((row) => row.wanted);
    const value = new Map(rows.map((row) => [row, column.by(row.figure)]));
    rows.sort((one, other) => {
      const [a, b] = [value.get(one), value.get(other)];
      if (a === b) return one.key < other.key ? -1 : 1;
      if (a === LAST || b === LAST) return a === LAST ? 1 : -1; // what nobody knows is always last
      return (a < b ? -1 : 1) * sign;
    });
    arrange(this.body, rows.map((row) => row.element));
    this.columns.forEach((one, n) => setAttribute(this.heads[n], "aria-sort",
      one === column ? (this.sorted.downwards ? "descending" : "ascending") : null));
  }

  /** Arrows go from row to row. */
  step(event) {
    const step = { ArrowDown: "nextElementSibling", ArrowUp: "previousElementSibling" }[event.key];
    const next = step && event.target.closest("tr")?.[step]?.querySelector("button");
    if (!next) return;
    next.focus();
    event.preventDefault();
  }
}

const or = (value, otherwise) => (value === null || value === undefined ? otherwise : value);
const words = () => h("span");

function number(title, read, write, more = {}) {
  return {
    title,
    kind: `number ${more.kind ?? ""}`,
    downwards: true,
    by: (figure) => or(read(figure), LAST),
    cell: words,
    write: (cell, figure) => setText(cell, write(read(figure))),
    ...more.column,
  };
}

/** A bar from 0 to 1 with its figure beside it. */
function meter(title, read, write, more = {}) {
  return {
    title,
    kind: `number ${more.kind ?? ""}`,
    downwards: more.downwards ?? true,
    help: more.help,
    by: (figure) => or(read(figure), LAST),
    cell: () => h("span", { class: `meter ${more.tone ?? ""}` }, h("i"), h("b")),
    write: (cell, figure) => {
      const value = read(figure);
      const width = `${(100 * Math.min(1, or(value, 0))).toFixed(1)}%`;
      if (cell.firstChild.style.width !== width) cell.firstChild.style.width = width;
      setText(cell.lastChild, write(value));
    },
  };
}

function name(title, read, mark) {
  return {
    title,
    kind: "name",
    by: read,
    cell: (open) => h("button", { type: "button", class: "link", click: open }, h("span", { class: "dot" }), h("span"), h("em")),
    write: (cell, figure) => {
      const { state, said } = mark(figure);
      setText(cell.children[1], read(figure));
      setText(cell.lastChild, state === "bad" ? said : "");
      setAttribute(cell.firstChild, "data-state", state);
      setAttribute(cell, "title", said);
      setAttribute(cell, "aria-label", `${read(figure)}: ${said}`);
    },
  };
}

/** A mark on a latency that is not measured. */
export const modelled = ({ latency_measured: measured }) => (measured === false ? " *" : "");
export const MODELLED = "* modelled: its stream does not tell when tuples arrived";

export const sicNow = (query) => (query.silent ? null : or(query.sic_now, query.sic));
export const shedOf = (query) => (query.arrived > 0 ? query.shed / query.arrived : null);
export const shedNow = (site) => {
  const all = site.statistics.throughput + site.statistics.dropped;
  return all > 0 ? site.statistics.dropped / all : null;
};

function standing(query) {
  if (query.silent) return { state: "bad", said: "silent" };
  const now = sicNow(query);
  if (now === null) return { state: "unknown", said: "no result yet" };
  if (query.floor > 0 && now < query.floor) return { state: "bad", said: "below its floor" };
  return now < 0.995 ? { state: "busy", said: "something is missing" } : { state: "good", said: "complete" };
}

export function siteStanding(site) {
  if (site.silent) return { state: "bad", said: "silent" };
  if (site.overdue) return { state: "bad", said: "not heard of" };
  const told = site.statistics;
  if (told.latency_target_ms > 0 && told.latency_ms > told.latency_target_ms) return { state: "bad", said: "late" };
  return told.dropped > 0 ? { state: "busy", said: "sheds" } : { state: "good", said: "keeps up" };
}

/** The queries, the poorest first; `history` answers what a query's SIC was of late. */
export function queryTable(place, open, history) {
  const columns = [
    name("Query", (query) => query.query, standing),
    meter("SIC", sicNow, text.sic, { downwards: false, tone: "sic", help: "The share of its sources' data that its result holds now" }),
    {
      title: "Of late",
      kind: "wide",
      by: (query) => or(sicNow(query), LAST),
      cell: () => svg("svg", { class: "spark", viewBox: "0 0 96 22", "aria-hidden": "true" }, svg("path", { class: "below" }), svg("path")),
      write: (cell, query) => {
        const line = sparkline(history(query.query));
        setAttribute(cell.firstChild, "d", line && `${line}V22H1Z`);
        setAttribute(cell.lastChild, "d", line);
      },
    },
    number("Mean SIC", (query) => query.sic, text.sic, { kind: "wide" }),
    number("Admitted", (query) => query.admitted, text.count, { kind: "wide" }),
    number("Shed", shedOf, text.percent),
    {
      ...number("Latency p95", (query) => query.latency_ms.p95, text.milliseconds, { kind: "middle" }),
      write: (cell, query) => {
        setText(cell, text.milliseconds(query.latency_ms.p95) + modelled(query));
        setAttribute(cell, "title", modelled(query) ? MODELLED : null);
      },
    },
    number("Count ±", (query) => query.interval_width, (width) => (width === null || width === undefined ? text.NONE : `${(100 * width).toFixed(1)} %`), { kind: "wide", column: { help: "Half the width of the interval of 95 % around a count over its STW" } }),
    number("Weight", (query) => query.weight, (weight) => `${+weight.toPrecision(3)}`, { kind: "middle" }),
    number("Floor", (query) => query.floor, (floor) => (floor > 0 ? text.sic(floor) : text.NONE), { kind: "wide" }),
  ];
  return new LiveTable(place, { label: "Queries", columns, sorted: { column: "SIC", downwards: false }, open });
}

/** The sites, by name. */
export function siteTable(place, open) {
  const columns = [
    name("Site", (site) => site.site, siteStanding),
    meter("Busy", (site) => (site.silent ? null : site.statistics.utilisation), text.percent),
    number("Admits/s", (site) => site.statistics.throughput, text.count, { kind: "middle" }),
    meter("Shed", shedNow, text.percent, { tone: "shed" }),
    {
      ...number("Latency p95", (site) => site.statistics.latency_ms, text.milliseconds),
      cell: () => h("span", {}, h("b"), h("small")),
      write: (cell, site) => {
        const { latency_ms: now, latency_target_ms: target } = site.statistics;
        setText(cell.firstChild, text.milliseconds(now) + modelled(site.statistics));
        setText(cell.lastChild, target > 0 ? ` of ${text.target(target)}` : "");
        setAttribute(cell, "title", modelled(site.statistics) ? MODELLED : null);
        setAttribute(cell, "data-late", target > 0 && now > target ? "" : null);
      },
    },
    number("Backlog", (site) => site.statistics.backlog, text.count, { kind: "wide" }),
    number("SIC", (site) => site.statistics.average_sic, text.sic, { kind: "middle" }),
    number("Fragments", (site) => site.statistics.fragments_running, text.count, { kind: "wide federation" }),
    number("Refused", (site) => Object.values(site.statistics.refused).reduce((a, b) => a + b, 0), text.count, { kind: "wide federation" }),
  ];
  return new LiveTable(place, { label: "Sites", columns, sorted: { column: "Site", downwards: false }, open });
}
