import { InternalService as DeployerInternal } from "../../proto/gen/berth/deployer/v1/internal_pb.ts";
import { InternalService as IdentityInternal } from "../../proto/gen/berth/identity/v1/internal_pb.ts";
import { NotificationService } from "../../proto/gen/berth/notifications/v1/notifications_pb.ts";
import { UnsubscribeService } from "../../proto/gen/berth/notifications/v1/unsubscribing_pb.ts";
import { WebhookService } from "../../proto/gen/berth/notifications/v1/webhooks_pb.ts";
import type { Logger } from "../kit/log.ts";
import { linkSettings } from "../kit/mail/mail.ts";
import { startMailer } from "../kit/mail/mailer.ts";
import { startChangeFeed } from "../kit/postgres/change-feed.ts";
import { main } from "../kit/process/process.ts";
import { startService } from "../kit/process/service.ts";
import { startWatchingNode } from "./capacity/watch.ts";
import { type Config, fields } from "./config.ts";
import { startDigests } from "./digests/make-digests.ts";
import { consumers } from "./events/handlers.ts";
import { FOLLOW_CHANNEL } from "./feed/follow.ts";
import { notificationService } from "./feed/notification-service.ts";
import { createMailContents } from "./mail/mail-contents.ts";
import { recordMail } from "./mail/record-mail.ts";
import { createUnsubscribeLinks } from "./mail/unsubscribe-links.ts";
import { createNotify, MAIL_QUEUES } from "./notices/notify.ts";
import { preferenceChange } from "./preferences/change-preference.ts";
import { createDirectory } from "./recipients/directory.ts";
import { startRetention } from "./retention/retention.ts";
import { unsubscribeService } from "./unsubscribing/unsubscribe-service.ts";
import { createSecrets } from "./webhooks/secrets.ts";
import { startDeliverer } from "./webhooks/sending/deliverer.ts";
import { createPost } from "./webhooks/sending/post.ts";
import { webhookService } from "./webhooks/webhook-service.ts";

/** The maximum delay of a stream while the session that listens for changes is lost. */
const FOLLOW_FALLBACK_MS = 5_000;

/**
 * Starts notifications: the feed, the event consumers, the mailer and webhooks. `now` is the clock of digests, bursts and
 * retention, in milliseconds.
 */
export async function start(config: Config, log: Logger, now: () => number = Date.now) {
  const { mail, origin } = linkSettings(config);
  const origins = {
    origin,
    baseUrl: origin + config.apiPrefix,
    ...(config.console === "on" && { console: `${origin}/console` }),
  };
  const options = { name: "notifications", folder: import.meta.dirname, config, log };
  return startService(options, async ({ pool, cursors, client }) => {
    const directory = createDirectory(client(IdentityInternal, config.identityUrl));
    const deployer = client(DeployerInternal, config.deployerUrl);
    const changes = await startChangeFeed({
      url: config.databaseUrl,
      name: FOLLOW_CHANNEL,
      log,
      fallbackMs: FOLLOW_FALLBACK_MS,
    });
    const changePreference = preferenceChange({ pool, directory });
    const links = createUnsubscribeLinks(config.internalKeys, origins.origin);
    const secrets = createSecrets(config.secretKeys);
    const allowPrivate = config.webhooksPrivate === "on";
    const notify = createNotify({ mails: mail !== undefined, now });
    return {
      routes(router) {
        router.service(
          NotificationService,
          notificationService({ pool, cursors, changes, changePreference }),
        );
        router.service(UnsubscribeService, unsubscribeService({ pool, links, changePreference }));
        router.service(WebhookService, webhookService({ pool, cursors, secrets, allowPrivate }));
      },
      consumers: consumers({ pool, notify, deployer, directory }),
      background() {
        const compose = createMailContents({ pool, origins, directory, unsubscribeLinks: links });
        const mailer =
          mail &&
          startMailer({ pool, log, settings: mail, compose, queues: MAIL_QUEUES, record: recordMail });
        const digests = mail && startDigests({ pool, log, directory, now });
        const deliverer = startDeliverer({ pool, log, post: createPost({ allowPrivate }), secrets });
        // A clock that is set, or that went on while the machine slept, says nothing about how long it was short.
        const steady = () => performance.now();
        const node = startWatchingNode({ ...{ pool, log, notify, directory, now: steady }, ...config });
        const retention = startRetention({ pool, log, now });
        return {
          stop: async () => {
            await Promise.all([
              mailer?.stop(),
              digests?.stop(),
              deliverer.stop(),
              node?.stop(),
              retention.stop(),
            ]);
            await changes.stop();
          },
        };
      },
    };
  });
}

if (import.meta.main) await main("notifications", fields, start);
