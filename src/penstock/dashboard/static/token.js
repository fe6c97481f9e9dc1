// Asks for a token.

import { h } from "./dom.js";
import { token } from "./feed.js";

/** Shows the dialog, and answers whether a token was given. */
export function askForToken(dialog, why) {
  if (dialog.open) return Promise.resolve(false);
  const input = h("input", { id: "token-given", type: "password", autocomplete: "off", spellcheck: "false", value: token.get() });
  const form = h("form", { method: "dialog" },
    h("h2", { id: "token-title" }, "Your token"),
    h("p", {}, why === "" ? "With a token you may see and change what its name allows. The page keeps it until this tab is closed." : `The server says: ${why}`),
    h("label", { for: "token-given" }, "Token"), input,
    h("div", { class: "buttons" },
      h("button", { value: "given", class: "primary" }, "Use it"),
      h("button", { type: "button", click: () => dialog.close("") }, "Not now")));
  dialog.replaceChildren(form);
  dialog.returnValue = "";
  dialog.showModal();
  input.focus();
  return new Promise((resolve) => dialog.addEventListener("close", () => {
    const given = dialog.returnValue === "given";
    if (given) token.set(input.value.trim());
    resolve(given);
  }, { once: true }));
}
