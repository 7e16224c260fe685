import type { DescService } from "@bufbuild/protobuf";
import { BillingService } from "../proto/gen/berth/billing/v1/billing_pb.ts";
import { BackupService } from "../proto/gen/berth/deployer/v1/backups_pb.ts";
import { CatalogService } from "../proto/gen/berth/deployer/v1/catalog_pb.ts";
import { DeploymentService } from "../proto/gen/berth/deployer/v1/deployments_pb.ts";
import { DomainService } from "../proto/gen/berth/deployer/v1/domains_pb.ts";
import { MetricsService } from "../proto/gen/berth/deployer/v1/metrics_pb.ts";
import { RegistryService } from "../proto/gen/berth/deployer/v1/registries_pb.ts";
import { RunService } from "../proto/gen/berth/deployer/v1/runs_pb.ts";
import { DeviceService } from "../proto/gen/berth/identity/v1/devices_pb.ts";
import { AccountService, SessionService } from "../proto/gen/berth/identity/v1/identity_pb.ts";
import { InvitationService } from "../proto/gen/berth/identity/v1/invitations_pb.ts";
import { OauthService } from "../proto/gen/berth/identity/v1/oauth_pb.ts";
import { PasswordService } from "../proto/gen/berth/identity/v1/passwords_pb.ts";
import { NotificationService } from "../proto/gen/berth/notifications/v1/notifications_pb.ts";
import { UnsubscribeService } from "../proto/gen/berth/notifications/v1/unsubscribing_pb.ts";
import { WebhookService } from "../proto/gen/berth/notifications/v1/webhooks_pb.ts";
import { VariablesService } from "../proto/gen/berth/variables/v1/variables_pb.ts";

/**
 * The processes behind the gateway, and their services whose annotated methods become REST routes. Each process
 * owns the proto package of its name, and answers at `<NAME>_URL`.
 */
const upstreams = {
  identity: [AccountService, SessionService, InvitationService, PasswordService, OauthService, DeviceService],
  variables: [VariablesService],
  deployer: [
    CatalogService,
    DeploymentService,
    DomainService,
    MetricsService,
    RunService,
    BackupService,
    RegistryService,
  ],
  notifications: [NotificationService, UnsubscribeService, WebhookService],
  billing: [BillingService],
} satisfies Record<string, DescService[]>;

export type Upstream = keyof typeof upstreams;

export const upstreamNames = Object.keys(upstreams) as Upstream[];

export const published: { upstream: Upstream; service: DescService }[] = upstreamNames.flatMap((upstream) =>
  upstreams[upstream].map((service) => ({ upstream, service })),
);
