import { at, call, onSend, show, token } from "/pages/link.js";

const asking = !token;

for (const id of ["password-field", "hint", "show-field"]) at(id).hidden = asking;
at("email-field").hidden = !asking;
if (asking) show("Forgot your password?", "You will get an e-mail with a link to set a new one.", true);
else show("Set a new password", "A new password ends all your sessions. Personal tokens keep working.", true);
at("send").textContent = asking ? "Mail me a link" : "Set the password";
at(asking ? "email" : "password").focus();

onSend(async () => {
  if (asking) {
    await call("POST", "/password-resets", { email: at("email").value.trim() });
    return show(
      "Check your mailbox",
      "If a user with this e-mail address exists, a link is on its way. It works for an hour.",
    );
  }
  await call("POST", "/password-resets/complete", { token, password: at("password").value });
  show("Done", "Your new password is set. You can now sign in.");
});
