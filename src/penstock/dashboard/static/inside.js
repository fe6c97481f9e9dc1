// Shows the gates and guards of a site from inside: strata, the plan in force, and why.

import { arrange, h, setText } from "./dom.js";
import * as text from "./text.js";

/** Is the list of gates and guards of one site, which keeps open what is open. */
export class Inside {
  constructor() {
    this.plan = h("p", { class: "lead" }, "asking the site …");
    this.gates = h("div");
    this.guards = h("div");
    this.element = h("div", {}, this.plan, this.gates, this.guards);
    this.known = new Map();
  }

  failed(why) {
    setText(this.plan, `The site does not let you look inside: ${why}.`);
    this.gates.replaceChildren();
    this.guards.replaceChildren();
    this.known.clear();
  }

  show(told) {
    setText(this.plan, `Plan ${text.exact(told.plan)} is in force, by the policy ${told.policy}; a latency of ${text.duration(told.latency_seconds)} is held.`);
    const gates = told.gates.toSorted((one, other) => admits(one) - admits(other) || (one.stream < other.stream ? -1 : 1));
    arrange(this.gates, gates.map((gate, n) => this.gate(gate, n === 0 && this.known.size === 0)));
    arrange(this.guards, told.guards.map((guard) => this.guard(guard)));
  }

  entry(key, make) {
    if (!this.known.has(key)) this.known.set(key, make());
    return this.known.get(key);
  }

  gate(gate, open) {
    const entry = this.entry(`gate ${gate.stream}`, () => {
      const summary = h("summary", {}, h("b", {}, gate.stream), h("span"));
      const why = h("ol", { class: "why" });
      const body = h("tbody");
      const more = h("p", { class: "nothing" });
      const table = h("table", {},
        h("thead", {}, h("tr", {}, ["Stratum", "Arrived", "Admitted", "Shed", "Worth of a tuple", "Plan admits"].map((title, n) => h("th", { scope: "col", class: n > 0 ? "number" : "" }, title)))), body);
      const element = h("details", { class: "gate", open }, summary, h("h4", {}, "Why"), why, h("h4", {}, "Strata, over the last STW"), h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": `Strata of ${gate.stream}` }, table), more);
      return { element, said: summary.lastChild, why, body, more };
    });
    setText(entry.said, `admits ${text.percent(admits(gate))}`);
    const steps = reasons(gate);
    if (entry.why.childElementCount !== steps.length) entry.why.replaceChildren(...steps.map(() => h("li")));
    steps.forEach((step, n) => setText(entry.why.children[n], step));
    entry.body.replaceChildren(...gate.strata.map((stratum) => strataRow(stratum, gate)));
    const others = gate.strata_in_all - gate.strata.length;
    setText(entry.more, others > 0 ? `and ${text.plural(others, "more stratum", "more strata")} of which less is shed` : "");
    return entry.element;
  }

  guard(guard) {
    const entry = this.entry(`guard ${guard.guard}`, () => {
      const said = h("p");
      const list = h("ol", { class: "keys" });
      return { element: h("section", { class: "gate" }, h("h4", {}, `Guard of ${guard.function}`), said, list), said, list };
    });
    setText(entry.said, `It has shed ${text.exact(guard.shed)} of ${text.exact(guard.arrived)} tuples; they wait ${text.milliseconds(guard.recent_wait_ms)} of the ${text.milliseconds(guard.wait_ms)} allowed, and cost ${text.duration(guard.mean_cost_ms / 1000)} each. Its dearest keys:`);
    const most = Math.max(...guard.dearest.map((key) => key.seconds), 1e-12);
    entry.list.replaceChildren(...guard.dearest.map((key) => {
      const bar = h("i");
      bar.style.width = `${(100 * key.seconds) / most}%`;
      return h("li", {}, h("span", {}, key.key), h("span", { class: "bar-of" }, bar), h("b", {}, text.duration(key.seconds)));
    }));
    return entry.element;
  }
}

const admits = (gate) => (gate.expected > 0 ? Math.min(1, gate.planned / gate.expected) : 1);

/** Says step by step how the plan came about. */
function reasons(gate) {
  const all = gate.planned >= gate.expected * 0.9995;
  const last = gate.last_seconds === null ? "" : ` The last batch took ${text.duration(gate.last_seconds)}.`;
  return [
    `The next batch should bring ${text.count(gate.expected)} tuples, as ${text.duration(gate.interval_seconds)} brought of late.`,
    `It may take ${text.duration(gate.budget_seconds)}, of which ${text.percent(gate.headroom)} is planned.`,
    `The model believes that a batch costs ${text.duration(gate.fixed_seconds)} however little is in it, ${text.duration(gate.arriving_seconds)} for each tuple that arrives, and ${text.duration(gate.admitting_seconds)} more for each that is admitted.`,
    all
      ? `So all of it can be admitted: that should take ${text.duration(gate.believed_seconds)}.${last}`
      : `The policy divides the site between all its queries. It gave this one ${text.count(gate.planned)} of them, ${text.percent(admits(gate))}: that should take ${text.duration(gate.believed_seconds)}.${last}`,
  ];
}

function strataRow(stratum, gate) {
  const queries = new Set(gate.strata.map((one) => one.query));
  const name = [queries.size > 1 ? stratum.query : "", stratum.source, stratum.group].filter((part) => part !== "").join(" · ");
  const shed = stratum.arrived > 0 ? 1 - stratum.admitted / stratum.arrived : 0;
  const bar = h("i");
  bar.style.width = `${100 * shed}%`;
  return h("tr", {}, h("th", { scope: "row" }, name),
    h("td", { class: "number" }, text.count(stratum.arrived)), h("td", { class: "number" }, text.count(stratum.admitted)),
    h("td", { class: "number" }, h("span", { class: "meter shed" }, bar, h("b", {}, text.percent(shed)))),
    h("td", { class: "number" }, text.tiny(stratum.worth)), h("td", { class: "number" }, text.percent(stratum.rate)));
}
