import { at, call, linkIsOver, onSend, sentence, show, token } from "/pages/link.js";

let invitation;

async function open() {
  if (!token) return show("No invitation", "Open this page with the link in your invitation.");
  try {
    invitation = await call("POST", "/invitations/open", { token });
  } catch (error) {
    return show(linkIsOver(error) ? "This link does not work" : "Not now", sentence(error));
  }
  const { accountName, accountHandle, invitedBy, role, email, known } = invitation;
  const named = accountName === accountHandle ? "" : ` (“${accountName}”)`;
  show(`Join ${accountHandle}`, `${invitedBy} invites you to this account${named}, as ${role}.`, true);
  at("email").value = email;
  at("name-field").hidden = known;
  at("password").autocomplete = known ? "current-password" : "new-password";
  at("hint").textContent = known
    ? "You already have a user here: enter your password."
    : "Choose a password with at least 12 characters. A few words are good.";
  at(known ? "password" : "name").focus();
}

async function join() {
  const password = at("password").value;
  if (invitation.known) return accept(password);
  const displayName = at("name").value.trim();
  try {
    await call("POST", "/invitations/join", { token, password, ...(displayName && { displayName }) });
  } catch (error) {
    // The e-mail address got a user after this page was opened.
    if (error.code === "user_exists") await open();
    else throw error;
    return;
  }
  done();
}

async function accept(password) {
  const session = await call("POST", "/sessions", { email: invitation.email, password });
  try {
    await call("POST", `/me/invitations/${invitation.id}/accept`, undefined, session.token);
  } finally {
    await call("DELETE", "/sessions", undefined, session.token).catch(() => {});
  }
  done();
}

function done() {
  const { accountHandle, role, email } = invitation;
  show("Welcome", `You are now a member of the account ${accountHandle}, as ${role}.`);
  const how = document.createElement("p");
  how.textContent = "Get a token for the API with your password:";
  const command = document.createElement("pre");
  const base = location.origin + document.querySelector("meta[name=berth-api]").content;
  const body = JSON.stringify({ email, password: "…" });
  command.textContent = `curl ${base}/sessions \\\n  -H 'Content-Type: application/json' \\\n  -d '${body}'`;
  const profile = linkTo("/profile", "Your profile");
  at("done").replaceChildren(profile, how, command, linkTo("/docs", "API reference"));
  at("done").hidden = false;
}

function linkTo(path, text) {
  const link = document.createElement("a");
  link.href = path;
  link.textContent = text;
  const line = document.createElement("p");
  line.append(link);
  return line;
}

onSend(join);
await open();
