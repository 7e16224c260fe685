import { InternalService as Billing } from "../../proto/gen/berth/billing/v1/internal_pb.ts";
import { InternalService as Deployer } from "../../proto/gen/berth/deployer/v1/internal_pb.ts";
import { DeviceService } from "../../proto/gen/berth/identity/v1/devices_pb.ts";
import { AccountService, SessionService } from "../../proto/gen/berth/identity/v1/identity_pb.ts";
import { InternalService } from "../../proto/gen/berth/identity/v1/internal_pb.ts";
import { InvitationService } from "../../proto/gen/berth/identity/v1/invitations_pb.ts";
import { OauthService } from "../../proto/gen/berth/identity/v1/oauth_pb.ts";
import { PasswordService } from "../../proto/gen/berth/identity/v1/passwords_pb.ts";
import type { Logger } from "../kit/log.ts";
import { linkSettings } from "../kit/mail/mail.ts";
import { startMailer } from "../kit/mail/mailer.ts";
import { createEntitlements } from "../kit/plans.ts";
import { main } from "../kit/process/process.ts";
import { startService } from "../kit/process/service.ts";
import { startTask } from "../kit/tasks/task.ts";
import { accountService } from "./accounts/account-service.ts";
import { billingHandlers, createDescribePlan } from "./accounts/plan.ts";
import { auditHandlers } from "./audit/audit-handlers.ts";
import { bootstrap } from "./bootstrap/bootstrap.ts";
import { type Config, fields, firstOwnerOf, metadataRules, oauthSettings } from "./config.ts";
import { grantEndedAtProvider } from "./grants/lifecycle.ts";
import { internalService } from "./internal/internal-service.ts";
import { invitationService } from "./invitations/invitation-service.ts";
import { createLinks } from "./links/links.ts";
import { createMailContents } from "./mail/mail-contents.ts";
import { deviceService } from "./oauth/devices/device-service.ts";
import { createEmbedded } from "./oauth/embedded/adapter.ts";
import { guarded } from "./oauth/guarded.ts";
import { createHydra } from "./oauth/hydra/adapter.ts";
import { oauthService } from "./oauth/oauth-service.ts";
import { MAX_METADATA } from "./oauth/registration/client-metadata.ts";
import { clientDocuments } from "./oauth/registration/documents/client-documents.ts";
import { documentFetcher } from "./oauth/registration/documents/fetch-document.ts";
import { clientRegistration } from "./oauth/registration/register.ts";
import { passwordService } from "./passwords/password-service.ts";
import { createPasswordCheck } from "./passwords/passwords.ts";
import { sessionService } from "./sign-in/session-service.ts";
import { sweepAll } from "./sweep.ts";
import { RENEW_KEYS, SWEEP } from "./tasks.ts";

/** The consumer of audit records. */
const AUDIT = "identity-audit";

/**
 * Starts identity: connects to the database (for up to a minute), creates the first owner, then serves. `now` is the
 * clock of expiry, in milliseconds, and `fetchDocument` reads client id metadata documents.
 */
export async function start(
  config: Config,
  log: Logger,
  now: () => number = Date.now,
  fetchDocument = documentFetcher({ maxBytes: MAX_METADATA }),
) {
  const owner = firstOwnerOf(config);
  const { mail, origin } = linkSettings(config);
  const { adminUrl, ...settings } = oauthSettings(config);
  const options = { name: "identity", folder: import.meta.dirname, config, log };
  return startService(options, async ({ pool, cursors, client, caughtUp }) => {
    if (owner) await bootstrap(pool, owner, log, now());
    const { deployerUrl, billingUrl } = config;
    const deployer = deployerUrl === undefined ? undefined : client(Deployer, deployerUrl);
    const billing = billingUrl === undefined ? undefined : client(Billing, billingUrl);
    const passwords = await createPasswordCheck();
    const links = createLinks(config.internalKeys, origin);
    const mails = mail !== undefined;
    const entitlementsOf = createEntitlements(config);
    const describePlan = createDescribePlan(config);
    const oauth = { ...settings, pool, log, now };
    const rules = metadataRules(config);
    const documents =
      config.clientIdMetadata === "on" ? clientDocuments({ pool, rules, now, fetchDocument }) : undefined;
    const onGrantEnded = grantEndedAtProvider({ pool, now });
    const secrets = config.internalKeys;
    const embedded = adminUrl
      ? undefined
      : await createEmbedded({ ...oauth, secrets, documents, onGrantEnded });
    const provider = guarded(embedded ?? createHydra({ ...oauth, adminUrl: adminUrl! }));
    const register = clientRegistration({ pool, provider, rules, now });
    return {
      routes(router) {
        router.service(
          AccountService,
          accountService({
            ...{ pool, cursors, now, describePlan, deployer, billing },
            auditCaughtUp: () => caughtUp(AUDIT),
          }),
        );
        router.service(SessionService, sessionService({ pool, cursors, now, passwords }));
        router.service(
          InvitationService,
          invitationService({ pool, cursors, now, links, mails, entitlementsOf }),
        );
        router.service(PasswordService, passwordService({ pool, now, passwords, mails }));
        router.service(InternalService, internalService({ pool, now, provider, register }));
        router.service(OauthService, oauthService({ pool, cursors, now, provider }));
        router.service(DeviceService, deviceService({ pool, now, provider }));
      },
      ...(embedded && { other: embedded.handle }),
      consumers: [
        { name: AUDIT, from: "*", handlers: auditHandlers },
        { name: "identity-billing", from: "billing", handlers: billingHandlers },
      ],
      background() {
        const compose = createMailContents({ pool, links, now });
        const mailer = mail && startMailer({ pool, log, settings: mail, compose });
        const sweeps = startTask(SWEEP, () => sweepAll({ pool, provider }, new Date(now())), { log });
        const renewal = embedded && startTask(RENEW_KEYS, embedded.renewKeys, { log });
        return {
          stop: async () => {
            await Promise.all([sweeps.stop(), renewal?.stop(), mailer?.stop()]);
          },
        };
      },
    };
  });
}

if (import.meta.main) await main("identity", fields, start);
