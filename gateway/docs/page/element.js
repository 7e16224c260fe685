/** Creates an element; empty attributes and children are left out. */
export function el(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) if (value) node.setAttribute(key, value);
  node.append(...children.flat().filter((child) => child !== undefined && child !== ""));
  return node;
}
