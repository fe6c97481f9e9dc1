// Forms that change what a running site does; the site decides whether it lets whoever asks.

import { h, setText } from "./dom.js";
import { ask, token } from "./feed.js";

/** A form of numbers. `fields` have `name`, `title`, `min`, `max`, `step`; `send` answers what to say. */
export function numbersForm(title, fields, send) {
  const inputs = fields.map((field) => h("input", {
    id: `change-${field.name}`, name: field.name, type: "number", inputmode: "decimal",
    min: field.min, max: field.max, step: field.step, placeholder: field.placeholder ?? "",
  }));
  const said = h("p", { class: "said", role: "status" });
  const submit = async (event) => {
    event.preventDefault();
    const given = Object.fromEntries(inputs.filter((input) => input.value !== "").map((input) => [input.name, Number(input.value)]));
    if (Object.keys(given).length === 0) {
      tell(said, "Nothing was given to change.", true);
      return;
    }
    tell(said, "asking …", false);
    try {
      tell(said, await send(given), false);
      for (const input of inputs) input.value = "";
    } catch (error) {
      const hint = token.get() === "" ? " A change needs a token: see the button at the top of the page." : "";
      tell(said, `Not changed: ${error.message}.${hint}`, true);
    }
  };
  const element = h("form", { class: "terms", submit, "aria-label": title },
    fields.map((field, n) => h("label", {}, h("span", {}, field.title), inputs[n])),
    h("button", { class: "primary" }, "Change"), said);
  return { element, show: (now) => inputs.forEach((input, n) => { input.placeholder = now[n]; }) };
}

function tell(place, text, bad) {
  setText(place, text);
  place.dataset.state = bad ? "bad" : "good";
}

/** Changes the terms of a query, and says what came of it. */
export async function changeTerms(query, given) {
  const { changed, refused } = await ask("terms", { query, ...given });
  const [first] = Object.values(changed);
  const bound = first.ceiling === null || first.ceiling === undefined ? "none" : first.ceiling;
  const others = Object.entries(refused).map(([site, why]) => ` ${site} did not: ${why}.`).join("");
  return `In force from the next batch on at ${Object.keys(changed).join(", ")}: weight ${first.weight}, floor ${first.floor}, ceiling ${bound}.${others}`;
}

/** Changes the latency that a site holds. */
export async function changeLatency(site, { seconds }) {
  const told = await ask(`sites/${encodeURIComponent(site)}/latency`, { seconds });
  return `In force from the next batch on: ${told.seconds} s.`;
}
