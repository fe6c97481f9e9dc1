// Makes elements, and changes only what differs from what is shown.

/** Makes an element: attributes, listeners as functions, and children. */
export function h(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(name, value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return made;
}

/** The same for pictures. */
export function svg(tag, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(name, value);
    else if (value !== null && value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children.flat());
  return made;
}

/** Changes a text, if it is another one: a text that is set again is laid out again. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Changes an attribute, if it is another one. */
export function setAttribute(element, name, value) {
  if (value === null || value === false) element.removeAttribute(name);
  else if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value);
}

/** Puts elements in an order, and moves only those that stand elsewhere. */
export function arrange(parent, wanted) {
  let place = parent.firstElementChild;
  for (const element of wanted) {
    if (element === place) place = place.nextElementSibling;
    else parent.insertBefore(element, place);
  }
  while (place !== null) {
    const next = place.nextElementSibling;
    place.remove();
    place = next;
  }
}
