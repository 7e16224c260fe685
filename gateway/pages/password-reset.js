import { at, call, onSend, show, token } from "/pages/link.js";

const asking = !token;

for (const id of ["password-field", "hint", "show-field"]) at(id).hidden = asking;
at("email-field").hidden = !asking;
if (asking) show("Forgot your password?", "A link that sets a new one comes by e-mail.", true);
else show("Set a new password", "It ends all your sessions. Personal tokens go on working.", true);
at("send").textContent = asking ? "Mail me a link" : "Set the password";
at(asking ? "email" : "password").focus();

onSend(async () => {
  if (asking) {
    await call("POST", "/password-resets", { email: at("email").value.trim() });
    return show(
      "Look into your mailbox",
      "If the e-mail has a user here, a link is on its way. It works for an hour.",
    );
  }
  await call("POST", "/password-resets/complete", { token, password: at("password").value });
  show("Done", "The new password is set. Sign in with it.");
});
