import { el } from "/docs/element.js";

/** Values of path parameters, which the next form starts with: mostly ids. They are kept for this page alone. */
const typed = new Map();

const token = () => document.getElementById("token").value.trim();

/** Returns a form that sends the operation's request to this installation; it is created when it is first opened. */
export function tryView(request) {
  const view = el("details", { class: "try" }, el("summary", {}, "Try it"));
  view.addEventListener("toggle", () => view.append(form(request)), { once: true });
  return view;
}

function form({ base, path, method, operation, parameters }) {
  const example = operation.requestBody?.content["application/json"]?.example;
  const fields = parameters.map((parameter) => field(parameter));
  const body = example === undefined ? undefined : el("textarea", { spellcheck: "false" });
  if (body) body.value = JSON.stringify(example, null, 2);
  const button = el("button", {}, "Send");
  const output = el("pre", { role: "status", tabindex: "0" });
  output.hidden = true;
  const view = el(
    "form",
    { "aria-label": `Try ${operation.summary}` },
    fields.map(({ view }) => view),
    body ? el("label", {}, "Body", body) : undefined,
    button,
    output,
  );
  let running;
  view.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (running) return running.abort();
    running = new AbortController();
    button.textContent = "Stop";
    output.hidden = false;
    output.textContent = "…";
    const values = { path, headers: {}, query: new URLSearchParams() };
    for (const one of fields) one.put(values);
    await send(output, requestOf({ base, method, operation, values, body }), running.signal);
    running = undefined;
    button.textContent = "Send";
  });
  return view;
}

/** Returns the input of a parameter, and a function that puts its value into a request. */
function field({ name, in: part, required }) {
  const input = el("input", {
    name,
    autocomplete: "off",
    spellcheck: "false",
    required: required && "required",
  });
  if (part === "path") input.addEventListener("input", () => typed.set(name, input.value));
  const known = part === "path" && typed.get(name);
  if (known) input.value = known;
  const put = (values) => {
    const value = input.value.trim();
    if (part === "path") values.path = values.path.replace(`{${name}}`, encodeURIComponent(value));
    else if (value && part === "query") values.query.append(name, value);
    else if (value) values.headers[name] = value;
  };
  return { view: el("label", {}, name, input), put };
}

function requestOf({ base, method, operation, values, body }) {
  const types = Object.values(operation.responses).flatMap(({ content }) => Object.keys(content ?? {}));
  const headers = {
    accept: types.includes("application/json") ? "application/json" : types[0],
    ...values.headers,
  };
  if (!operation.security && token()) headers.authorization = `Bearer ${token()}`;
  if (body) headers["content-type"] = "application/json";
  // At this page's origin, which may differ from the one in the document.
  const url = new URL(base).pathname + values.path + (values.query.size > 0 ? `?${values.query}` : "");
  return { url, method: method.toUpperCase(), headers, body: body?.value };
}

/** Sends a request and shows status, request id and body: of a stream, the events as they arrive until it is stopped. */
async function send(output, { url, ...init }, signal) {
  try {
    const answer = await fetch(url, { ...init, signal, credentials: "omit" });
    const head = `${answer.status} ${answer.statusText}\nx-request-id: ${answer.headers.get("x-request-id")}\n\n`;
    output.textContent = head;
    if (answer.headers.get("content-type")?.includes("json"))
      output.textContent += JSON.stringify(await answer.json(), null, 2);
    else if (answer.body) {
      const parts = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      for (let part = await parts.read(); !part.done; part = await parts.read())
        output.textContent += part.value;
    }
  } catch (error) {
    if (error.name !== "AbortError") output.textContent += `No response: ${error.message}`;
  }
}
