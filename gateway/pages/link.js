const api = document.querySelector("meta[name=berth-api]").content;

/** An element of the page. */
export const at = (id) => document.getElementById(id);

/** The token of the link that led here: what stands behind the #. */
export const token = location.hash.slice(1);

// Another link in the same tab is another page.
addEventListener("hashchange", () => location.reload());

/** Calls the API. Throws the envelope's error, or a sentence of its own when nothing answered. */
export async function call(method, path, body, bearer) {
  const headers = { ...(body && { "content-type": "application/json" }) };
  if (bearer) headers.authorization = `Bearer ${bearer}`;
  const answer = await fetch(api + path, { method, headers, body: body && JSON.stringify(body) }).catch(
    () => {
      throw new Error("Berth does not answer. Look at your connection, then try again.");
    },
  );
  const text = await answer.text();
  const json = text ? JSON.parse(text) : {};
  if (!answer.ok) throw json.error;
  return json;
}

/** What a refusal says to people. */
export const sentence = (error) => error.details?.[0]?.message ?? error.message ?? "Something went wrong.";

/** Whether a refusal is about the link itself, so that trying again is of no use. */
export const linkIsOver = (error) => error.details?.some(({ reason }) => reason === "link_expired") ?? false;

/** Shows one state of the page: its heading and sentence, with or without the form. */
export function show(title, lead, form = false) {
  at("title").textContent = title;
  at("lead").textContent = lead;
  at("form").hidden = !form;
  if (!form) at("title").focus();
}

/** Runs `work` when the form is sent, once at a time, and shows what it is refused with. */
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
