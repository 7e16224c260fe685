const api = document.querySelector("meta[name=berth-api]").content;

/** An element of the page. */
export const at = (id) => document.getElementById(id);

/** The token of the link that led here: the fragment of the URL. */
export const token = location.hash.slice(1);

// Another link may be opened in the same tab.
addEventListener("hashchange", () => location.reload());

/** Calls the API. Throws the error of the envelope, or an Error when Berth cannot be reached. */
export async function call(method, path, body, bearer) {
  const headers = { ...(body && { "content-type": "application/json" }) };
  if (bearer) headers.authorization = `Bearer ${bearer}`;
  const answer = await fetch(api + path, { method, headers, body: body && JSON.stringify(body) }).catch(
    () => {
      throw new Error("Berth cannot be reached. Check your connection, then try again.");
    },
  );
  const text = await answer.text();
  const json = text ? JSON.parse(text) : {};
  if (!answer.ok) throw json.error;
  return json;
}

/** Returns the sentence of an error that is shown. */
export const sentence = (error) => error.details?.[0]?.message ?? error.message ?? "Something went wrong.";

/** Returns whether the link itself was refused, so that trying again does not help. */
export const linkIsOver = (error) => error.details?.some(({ reason }) => reason === "link_expired") ?? false;

/** Shows one state of the page: its heading and sentence, with or without the form. */
export function show(title, lead, form = false) {
  at("title").textContent = title;
  at("lead").textContent = lead;
  at("form").hidden = !form;
  if (!form) at("title").focus();
}

/** Runs `work` when the form is sent, one at a time, and shows its error. */
export function onSend(work) {
  at("show").addEventListener("change", () => {
    at("password").type = at("show").checked ? "text" : "password";
  });
  at("form").addEventListener("submit", async (event) => {
    event.preventDefault();
    at("send").disabled = true;
    at("error").textContent = "";
    try {
      await work();
    } catch (error) {
      if (linkIsOver(error)) show("This link does not work", sentence(error));
      else at("error").textContent = sentence(error);
    } finally {
      at("send").disabled = false;
    }
  });
}
