// Generated from gateway/openapi.json by clients/generate. Do not edit.

export type Account = {
  id: string;
  /** 3-39 characters from a-z, 0-9 and -. Unique in the installation. */
  handle: string;
  displayName: string;
  /** The caller's role in the account. */
  myRole: "reader" | "editor" | "owner";
  createdAt: string;
  /** Present only when a single account is returned. The same applies to `limits`. */
  plan?: AccountPlan;
  limits?: AccountLimits;
};

/** The access of an application to an account on behalf of one of its members. */
export type AccountGrant = {
  id: string;
  clientId: string;
  clientName: string;
  /** The member who connected the application. */
  userId: string;
  displayName: string;
  /** reader or editor. Never higher than the member's own role. */
  role: "reader" | "editor";
  grantedAt: string;
  lastUsedAt: string;
};

export type AccountGrantsPage = {
  data: AccountGrant[];
  page: Page;
};

/** The limits of the plan. A resource without a member here is not limited. */
export type AccountLimits = {
  /** The maximum size of an upload after gzip compression. */
  uploadBytes: number;
  buildMinutes: number;
  /** The number of formerly live versions that are kept for rollbacks. */
  historyDepth: number;
  buildsAtOnce?: number;
  /** The maximum number of addons, counted across all environments. */
  addons?: number;
  projects?: number;
  /** The maximum number of services of each type. */
  servicesPerType?: number;
  /** The maximum number of replicas of each service. */
  replicas?: number;
  /** The largest size that a service can have. */
  size?: "nano" | "small" | "medium" | "large";
  members?: number;
  /** The maximum number of domains, counted across all services. */
  domains?: number;
  /** The maximum number of runs that have not ended, counted across all services. */
  runsAtOnce?: number;
  /** For how many days the newest backup of a deleted addon is kept. */
  backupDays: number;
  /** The largest volume that an addon can be given, in GiB. */
  storageGib?: number;
};

export type AccountPlan = {
  tier: "free" | "pro" | "team" | "enterprise";
  /** Until when services beyond the allowance may run although no plan pays for them. Absent without a grace period. */
  graceUntil?: string;
  /** Why services beyond the allowance are stopped: the grace period is over, or the spend limit is reached. Absent if they may run. */
  suspended?: "free_plan" | "spend_limit";
};

export type AccountsPage = {
  data: Account[];
  page: Page;
};

export type ActiveSession = {
  id: string;
  /** True if the token of this session authenticates the request. */
  current: boolean;
  /** The IP address from which the user signed in. */
  ip?: string;
  createdAt: string;
  lastUsedAt: string;
  /** When the session ends if it is not used again. */
  expiresAt: string;
};

export type AddonBackups = {
  /** When the newest backup that succeeded began. */
  latestAt?: string;
  /** The last restore. */
  restore?: AddonRestore;
  /** The oldest moment whose data a backup may have; of a single service. Absent where it is not known, or there is none yet. */
  oldestRestorableAt?: string;
  /** Why newer moments cannot be restored at present, as a sentence; of a single service. */
  archiveFailure?: string;
};

export type AddonCapabilities = {
  /** Whether it can be backed up and restored. */
  backups: boolean;
  /** Why not, as a sentence. */
  backupsReason?: string;
  /** How many servers it may have, as config.replicas: one that takes writes, and standbys. */
  maxReplicas: number;
  /** Why it is only one, as a sentence. */
  maxReplicasReason?: string;
  /** Whether a backup may have its data of any moment, back to `backups.oldest_restorable_at`. */
  pointInTime: boolean;
  /** Why not, as a sentence. */
  pointInTimeReason?: string;
  /** The versions that new addons of the type may have, as config.version, the newest first. */
  versions: string[];
  /** Why there is no choice, as a sentence. */
  versionsReason?: string;
  /** Whether config.storage_gib can be set. */
  storage: boolean;
  /** Why not, as a sentence. */
  storageReason?: string;
  /** Whether config.storage_max_gib can be set. */
  storageGrows: boolean;
  /** Why not, as a sentence. */
  storageGrowsReason?: string;
  /** Whether config.pooler can be set. */
  pooler: boolean;
  /** Why not, as a sentence. */
  poolerReason?: string;
};

export type AddonRestore = {
  /** The id of the backup. */
  backup: string;
  status: "running" | "succeeded" | "failed";
  startedAt: string;
  finishedAt?: string;
  /** Why it failed, as a sentence. The addon has kept its data. */
  failure?: string;
};

export type AddonServer = {
  /** Its version, such as 18.1. */
  version?: string;
  /** The size of its volume. */
  storageBytes?: number;
};

/** Where a newly written alias or connection does not resolve, or a variable PORT reaches no service because the platform sets it. The name of an alias or a connection is in `dangling` of the resolved variables there. */
export type AliasWarning = {
  reason: "alias_cycle" | "service_not_found" | "service_not_addon" | "key_not_found" | "port_reserved";
  /** For an alias: the service in which it does not resolve. */
  serviceId?: string;
  /** The name of the service. */
  name?: string;
  environmentId: string;
  /** The names in an alias cycle. Each points to the next, and the last to the first. */
  cycle: string[];
  /** The name of the connection that does not resolve in the environment, or PORT. */
  variable?: string;
  connection?: Connection;
};

export type Allowance = {
  eligible: boolean;
  appliedUsd: number;
  /** The allowance by service type. Types without an allowance are absent. */
  byType: Record<string, TypeAllowance>;
};

export type ApplyResult = {
  /** The ids of the services to which the changes were applied. */
  applied: string[];
};

export type AuditActor = {
  kind: "user" | "machine" | "service";
  id: string;
  tokenId?: string;
};

export type AuditEvent = {
  id: string;
  /** The action, as resource.verb, such as variable.reveal. */
  action: string;
  actor: AuditActor;
  /** The name or the id of the resource that the action changed or read. */
  target: string;
  metadata: Record<string, string>;
  requestId: string;
  ip: string;
  at: string;
};

export type AuditEventsPage = {
  data: AuditEvent[];
  page: Page;
};

/** How a service is scaled by the CPU that its replicas use. */
export type Autoscaling = {
  /** The fewest replicas. Defaults to 1. */
  min?: number;
  /** The most replicas. Required to turn it on. */
  max?: number;
  /** The share of its size that a replica uses on average, in percent: replicas are added above it, and removed below it. Defaults to 70. */
  targetCpuPercent?: number;
};

export type BackupDownload = {
  /** A secret: whoever has it gets all data. */
  url: string;
  expiresAt: string;
};

export type Backup = {
  id: string;
  serviceId: string;
  status: "running" | "succeeded" | "failed";
  trigger: "manual" | "nightly" | "uploaded";
  startedAt: string;
  finishedAt?: string;
  /** Of a backup that succeeded. */
  sizeBytes?: number;
  /** The version of the server whose data it is, such as 18.4. */
  version?: string;
  /** Why it failed, as a sentence. */
  failure?: string;
  /** The id of the user who asked for it. Absent for a nightly one. */
  requestedBy?: string;
  /** When it was last restored to the side and read, which happens to one backup a night. */
  provedAt?: string;
  /** Why it could not be when that was last tried, as a sentence. */
  proofFailure?: string;
  /** The moment whose data it has, if one was asked for. */
  at?: string;
};

export type BackupUpload = {
  uploadUrl: string;
  /** Names the upload. The backup that is made of it has this id. */
  upload: string;
  method: "PUT";
  /** The exact Content-Type that the upload must send. */
  contentType: string;
  expiresInSeconds: number;
  maxBytes: number;
};

export type BackupsPage = {
  data: Backup[];
  page: Page;
};

export type BatchVariablesRequest = {
  set?: VariableEntry[];
  unset?: string[];
  confirmImpact?: boolean;
};

export type BatchVariablesResult = {
  /** The created or overwritten variables, without their values. */
  data: Variable[];
  applied: number;
  removed: number;
  /** At most 20 services in which an alias is part of a cycle that the variables of the service or of its environment close, and at most 20 environments in which a connection does not resolve yet. */
  warnings: AliasWarning[];
};

export type BillingPortal = {
  url: string;
};

export type BuildLogPiece = {
  /** Complete lines, each with its line break. */
  logs: string;
  /** True if output before this piece was dropped. */
  truncated: boolean;
};

/** The build started over. The output before this event belongs to an interrupted attempt. */
export type BuildLogRestart = Record<string, never>;

export type BuildLogsResponse = {
  version: number;
  /** Empty until the build writes output. */
  logs: string;
  /** True if older output was dropped. */
  truncated: boolean;
  /** True if the build is still running. */
  live: boolean;
  retrievedAt: string;
};

export type CancelSubscriptionResult = {
  status: "canceled";
  /** A date-time, or `now`. */
  accessUntil: string;
  /** The cash refund. Absent if nothing was refunded in cash. */
  refund?: Refund;
  /** True if a refund is due but waits for staff or for the payment provider. */
  refundUnderReview: boolean;
  /** The time, by the payment provider's clock, until which compute is counted. */
  asOf: string;
  /** The invoices that are charged, after the customer's balance. Those of 0 are absent. */
  charges: CancellationCharge[];
  /** The amounts that are not owed, or that go to the customer's balance. */
  credits: CancellationCredit[];
  /** The amount of the refund that waits, in cash and to the balance. */
  underReviewUsd: number;
  /** The charges minus the cash refund. What is under review does not count. */
  netUsd: number;
  /** What went wrong without stopping the cancellation, as sentences. */
  warnings: string[];
};

export type CancellationCharge = {
  /** What the invoice is for: the plan, compute only, members of a running term, or other things. */
  kind: "subscription" | "compute" | "proration" | "manual";
  amountUsd: number;
  /** When it is charged. Absent if it is charged now. */
  at?: string;
  /** True if the amount contains compute that keeps running until then, and so may become higher. */
  estimated: boolean;
};

export type CancellationCredit = {
  /** `openInvoice` is taken off an invoice that is not paid, `renewal` is a renewal that is not charged, `balance` goes to the customer's balance at the payment provider. */
  kind: "open_invoice" | "renewal" | "balance";
  amountUsd: number;
};

/** The members have the same meaning as in CancelSubscriptionResult. */
export type CancellationPreview = {
  accessUntil: string;
  refund?: Refund;
  refundUnderReview: boolean;
  asOf: string;
  charges: CancellationCharge[];
  credits: CancellationCredit[];
  underReviewUsd: number;
  netUsd: number;
  warnings: string[];
};

export type ChangeLine = {
  /** plan, seat, or other. */
  kind: string;
  /** The plan of `plan` and `seat`. */
  tier: string;
  quantity: number;
  amountUsd: number;
  periodStart: string;
  periodEnd: string;
  /** For `other`: what the provider says of it. */
  description: string;
};

export type ChangePasswordRequest = {
  current: string;
  /** At least 12 characters. */
  new: string;
};

export type CheckoutLine = {
  kind: "plan" | "seat";
  quantity: number;
  /** For a term: a month or a year. */
  unitPriceUsd: number;
  amountUsd: number;
};

export type CheckoutPreview = {
  /** The plan, and the members beyond those that it includes, for the first term. */
  lines: CheckoutLine[];
  /** The saved promo code, if it applies. */
  coupon?: Coupon;
  /** The saved promo code, if it does not apply, and why. */
  couponRefusal?: CouponRefusal;
  /** What the promo code takes off the lines. */
  discountUsd: number;
  /** Other amounts that wait for the customer's next invoice, before taxes. */
  otherUsd: number;
  /** What the customer's balance changes: less than 0 if it pays a part, more if an amount of earlier invoices is added. */
  balanceUsd: number;
  /** What is charged now. */
  totalUsd: number;
  renewsAt: string;
  /** What is charged at the first renewal, if plan and members stay as they are, besides compute. */
  renewalUsd: number;
  /** What open invoices of earlier subscriptions still ask for. It is not part of total_usd. */
  owedUsd: number;
  /** The taxes on all of this. Absent if the installation adds none, or if they are not known yet. */
  taxUsd?: number;
  /** True if taxes are added on the payment page, by the address that is entered there. The total and the renewal are without them. */
  taxAtCheckout: boolean;
  /** Compute that the account owes with its next subscription. It is not part of total_usd: it counts in the first period of compute, as an adjustment. */
  owedComputeUsd: number;
};

export type CheckoutSession = {
  checkoutUrl: string;
};

export type CollectedStatement = {
  /** Without the values that it was called with; the first 1000 characters. */
  text: string;
  calls: number;
  totalSeconds: number;
  meanMilliseconds: number;
  /** That it returned or changed, in all calls together. */
  rows: number;
};

export type CompleteConsentRequest = {
  consentChallenge: string;
  accountId: string;
  /** A reader can only view; an editor can also deploy and make changes. */
  role: "reader" | "editor";
};

export type CompleteDeviceRequest = {
  userCode: string;
  accountId: string;
  /** A reader can only view; an editor can also deploy and make changes. */
  role: "reader" | "editor";
};

export type CompleteLoginRequest = {
  loginChallenge: string;
};

export type CompletePasswordResetRequest = {
  /** The part of the link after the #. */
  token: string;
  /** At least 12 characters. */
  password: string;
};

export type ComputeUsage = {
  periodStart: string;
  periodEnd: string;
  asOf: string;
  accruedUsd: number;
  /** The amount after the allowance and the credit. */
  netUsd: number;
  /** The projected net_usd at the end of the period if usage stays as it is now. */
  projectedNetUsd: number;
  allowance: Allowance;
  credit: Credit;
  services: ServiceUsage[];
  /** Corrections of earlier periods that were found after those periods were closed. A positive amount is owed, a negative one is returned. Included in net_usd. */
  adjustmentUsd: number;
  /** What the account owes with its next subscription: compute beyond the allowance since its plan ended, and compute of that plan that no invoice charged. 0 while it has a subscription: then it is part of adjustment_usd. */
  owedUsd: number;
};

export type ComputeUsageLine = {
  serviceId: string;
  startedAt: string;
  /** Absent while the interval is running. */
  endedAt?: string;
  size: "nano" | "small" | "medium" | "large";
  replicas: number;
  /** The seconds of the interval within the period, up to now. */
  seconds: number;
  /** The price of one replica, in billionths of a dollar. */
  nanoUsdPerSecond: number;
  /** The exact amount with all nine decimals. The lines of a service add up to the amount that it accrued. */
  accruedUsd: number;
  /** The price list that contains the rate. */
  priceVersion: string;
};

export type ComputeUsageLinesPage = {
  data: ComputeUsageLine[];
  page: Page;
};

/** A key that a managed addon of the environment publishes. */
export type Connection = {
  /** The name of the addon. */
  service: string;
  /** HOST, PORT, USER, PASSWORD, DATABASE or URL. */
  key: string;
};

export type Coupon = {
  code: string;
  label: string;
  /** Either this percentage is set, or an amount. */
  percentOff?: number;
  amountOffCents?: number;
};

export type CouponRefusal = {
  code: string;
  reason: "expired" | "redemption_limit" | "plan_restricted" | "not_eligible";
};

export type CreateAccountRequest = {
  handle: string;
  displayName?: string;
};

export type CreateBackupRequest = {
  /** The `upload` of a dump that was uploaded. */
  upload?: string;
  /** The moment whose data it is to have, from `backups.oldest_restorable_at` of the addon until now. */
  at?: string;
};

export type CreateBackupUploadRequest = {
  /** The size of the dump, if it is known: one that is too large is refused before it is sent. */
  sizeBytes?: number;
};

export type CreateDomainRequest = {
  /** A host name such as shop.example.com. */
  host: string;
  /** Another host name, to whose same path requests are redirected (308). Without it, the service answers. */
  redirectTo?: string;
};

export type CreateEnvironmentRequest = {
  name: string;
};

export type CreateProjectRequest = {
  name: string;
};

export type CreateRegistryRequest = {
  /** A host such as ghcr.io or registry.example.com:5000, without scheme and path. */
  host: string;
  user: string;
  /** A token or password. It is stored encrypted and never returned. */
  token: string;
};

export type CreateRunRequest = {
  /** A command for a shell, such as `npm run seed`. Required, except for a cron service: without it, its start command runs now. */
  command?: string;
  /** The run is ended when it takes longer; at most a day. Defaults to 3600, and for a cron service to its own limit. */
  timeoutSeconds?: number;
};

export type CreateServiceRequest = {
  name: string;
  type: "web" | "worker" | "cron" | "postgres" | "redis";
  source?: ServiceSource;
  config?: ServiceConfig;
  staged?: boolean;
  /** Of an addon: whose data it begins with. `backups.restore` of the new service says how far that is. */
  from?: ForkSource;
};

export type CreateSubscriptionRequest = {
  /** pro or team. */
  tierId: string;
  /** Defaults to monthly. `annual` bills a year of plan and seats at ten times the monthly price. */
  cadence?: "monthly" | "annual";
};

export type CreateTokenRequest = {
  name: string;
  expiresInDays?: number;
  /** The highest role of the token. The token acts with this role or the user's role, whichever is lower. */
  roleCap?: "reader" | "editor" | "owner";
  /** Restricts the token to one account. */
  accountId?: string;
};

export type CreateUploadRequest = {
  /** The size of the gzipped archive, if known. A size above the plan's limit is refused immediately. */
  sizeBytes?: number;
};

export type CreateVariableRequest = {
  name: string;
  value?: string;
  connection?: Connection;
  aliasTarget?: string;
  sensitive?: boolean;
};

export type CreateWebhookRequest = {
  /** An https URL without user name and password. */
  url: string;
  description?: string;
  /** All kinds, if omitted. */
  events?: string[];
  /** standard, if omitted. */
  format?: "standard" | "slack";
};

export type CreatedToken = {
  id: string;
  name: string;
  lastFour: string;
  roleCap?: "reader" | "editor" | "owner";
  accountId?: string;
  createdAt: string;
  expiresAt: string;
  /** The token itself. Only this answer contains it. */
  token: string;
};

export type Credit = {
  includedUsd: number;
  /** The amount as of now. The credit is applied when the invoice is finalized. */
  appliedUsd: number;
  remainingUsd: number;
};

export type DanglingVariable = {
  name: string;
  connection?: Connection;
  aliasTarget?: string;
  reason:
    | "service_not_found"
    | "service_not_addon"
    | "key_not_found"
    | "service_not_ready"
    | "alias_target_not_found"
    | "alias_target_dangling"
    | "alias_cycle"
    | "alias_depth_exceeded";
};

export type DeleteAccountRequest = {
  confirmImpact?: boolean;
};

export type DeleteEnvironmentRequest = {
  confirmImpact?: boolean;
};

export type DeleteMeRequest = {
  /** The caller's password, which confirms the deletion. */
  password: string;
};

export type DeleteProjectRequest = {
  confirmImpact?: boolean;
};

export type DeleteServiceRequest = {
  confirmImpact?: boolean;
};

export type DeleteVariableRequest = {
  confirmImpact?: boolean;
};

export type DeployFromArchiveRequest = {
  archiveRef: string;
  dryRun?: boolean;
};

export type DeployRequest = {
  image?: string;
  dryRun?: boolean;
};

/** Who made a deployment, as the audit log records it. */
export type DeploymentActor = {
  /** `machine`: an application that a user connected. `service`: the platform itself. */
  kind: "user" | "machine" | "service";
  /** The id of the user; for an application, of the user who connected it. */
  id: string;
  /** The session or token of the user, or the grant of the application. */
  tokenId?: string;
};

export type Deployment = {
  id: string;
  serviceId: string;
  /** Increases with each deployment of the service. */
  version: number;
  /** The image as given in the request. When a tag is applied, its digest at that time is appended. */
  image?: string;
  /** Present only on deployments built from source. */
  buildId?: string;
  /** Present only on deployments that were built from git. The same applies to `commit`. */
  branch?: string;
  commit?: string;
  /** Present only on deployments that were built from an archive. */
  archiveRef?: string;
  status: "queued" | "building" | "built" | "applied" | "failed" | "superseded";
  /** The current step of the builder while the status is building. */
  buildStage?:
    | "Waiting for builder"
    | "Fetching source"
    | "Detecting runtime"
    | "Building image"
    | "Pushing image";
  errors: Notice[];
  warnings: Notice[];
  createdAt: string;
  buildStartedAt?: string;
  builtAt?: string;
  appliedAt?: string;
  /** When the release first became healthy. Absent while it rolls out, and if it never became healthy. */
  healthyAt?: string;
  /** When the deployment failed or was superseded. */
  finishedAt?: string;
  /** The version whose build this deployment runs. Present if the deployment reuses an earlier build: a rollback, or a deployment of the live image. That version has the build log and names the source. */
  builtVersion?: number;
  /** The Cloud Native Buildpacks that built the source, as `id@version`. Empty if something else built it. */
  buildpacks: string[];
  /** Who made it. Absent on deployments that were made before this was recorded. */
  createdBy?: DeploymentActor;
};

export type DeploymentUnderWay = {
  version: number;
  /** `applied` while the release rolls out. */
  status: "queued" | "building" | "built" | "applied";
  /** The current step of the builder while the status is building. */
  buildStage?:
    | "Waiting for builder"
    | "Fetching source"
    | "Detecting runtime"
    | "Building image"
    | "Pushing image";
  createdAt: string;
};

export type DeploymentsPage = {
  data: Deployment[];
  page: Page;
};

export type DnsRecord = {
  type: "CNAME" | "A" | "AAAA" | "TXT";
  name: string;
  value: string;
  /** proof: shows that the account may use the host name; address: leads requests here; both: a CNAME does both. */
  purpose: "proof" | "address" | "both";
  /** Whether the record was found when it was last looked up. */
  found: boolean;
};

export type Domain = {
  id: string;
  serviceId: string;
  /** In lower case, without a dot at the end; names in other scripts as Punycode (xn--…). */
  host: string;
  /** Requests are answered with a redirect to the same path at this host name. */
  redirectTo?: string;
  /** pending_dns: no record has been found yet; verifying: it is not proved, or not served yet; issuing: it is served and waits for its certificate; active: it is served; failed: it is no longer served, or has no certificate. `message` says why. Berth keeps checking in every state. */
  state: "pending_dns" | "verifying" | "issuing" | "active" | "failed";
  /** Why the domain is in this state and what to do, as sentences. */
  message?: string;
  /** The records to create. One that proves is enough; one that leads here is also needed. */
  records: DnsRecord[];
  createdAt: string;
  /** When its records were last looked up. */
  checkedAt?: string;
  nextCheckAt: string;
  /** Since when the domain is active. Only while it is. */
  activatedAt?: string;
};

export type DomainsPage = {
  data: Domain[];
  page: Page;
};

export type DryRunDangling = {
  name: string;
  reason:
    | "service_not_found"
    | "service_not_addon"
    | "key_not_found"
    | "service_not_ready"
    | "alias_target_not_found"
    | "alias_target_dangling"
    | "alias_cycle"
    | "alias_depth_exceeded";
};

/** The differences from the live release. If no release is live, everything is new. */
export type DryRunDiff = {
  image: DryRunImage;
  /** The fields of the configuration that differ, such as "port" or "env.LOG_LEVEL". */
  config: string[];
  variables: DryRunVariables;
};

/** What a deployment would change. It contains the names of variables, never their values. */
export type DryRun = {
  /** True if the deployment would be accepted and could run. An installation on a single machine cannot run images (image_needs_cluster). */
  eligible: boolean;
  /** The error that the deployment request would get, or the error with which the deployment would fail. */
  refusal?: DryRunRefusal;
  diff: DryRunDiff;
  /** Variables that do not resolve. The deployment would run without them. */
  dangling: DryRunDangling[];
  /** Warnings about the deployment: `scalesDown` if it has fewer replicas or a smaller size than the live release. */
  warnings: Notice[];
};

export type DryRunImage = {
  changed: boolean;
  /** The live image, or the archiveRef of the live source. */
  from?: string;
  /** The image that would run, the archiveRef of the source, or "branch NAME" for a git source. */
  to?: string;
};

export type DryRunRefusal = {
  status: number;
  code: string;
  message: string;
  /** The reasons of validation_failed. */
  reasons: string[];
};

export type DryRunVariables = {
  added: string[];
  changed: string[];
  removed: string[];
};

/**
 * A generic empty message that you can re-use to avoid defining duplicated empty messages in your APIs. A typical example is to use it as the request or the response type of an API method. For instance:
 *
 * service Foo { rpc Bar(google.protobuf.Empty) returns (google.protobuf.Empty); }
 */
export type Empty = Record<string, never>;

export type Environment = {
  id: string;
  projectId: string;
  name: string;
  createdAt: string;
};

export type EnvironmentsPage = {
  data: Environment[];
  page: Page;
};

export type ExceededLimit = {
  /** As in `limits` of the account. */
  limit: string;
  allowed: number;
  used: number;
};

/** The last event of a stream. */
export type FollowEnd = {
  /** For a deployment: healthy, failed or superseded. For a build: built, failed or superseded. */
  outcome: "healthy" | "built" | "failed" | "superseded";
};

/** An addon of the account, of the same type, in whichever environment, or a backup of one. */
export type ForkSource = {
  /** The id of an addon. Without one, `backup` may be of any addon of the account, also of one that was deleted. */
  service?: string;
  /** The id of one of its backups; by default its newest one, which is made first if there is none. */
  backup?: string;
  /** The moment whose data it begins with: a backup of it is made first. With `service`, and without `backup`. */
  at?: string;
};

export type GitSource = {
  repository: string;
  branch: string;
  /** The folder of the repository to build. Defaults to the whole repository. */
  contextDir?: string;
  /** The name of a sensitive variable of the service that holds an access token for a private repository. The variable's value is a token, or user:token. */
  tokenVariable?: string;
};

export type GrantableAccount = {
  id: string;
  handle: string;
  displayName: string;
  /** reader, editor or owner. */
  myRole: "reader" | "editor" | "owner";
  /** The roles that the caller can grant: reader and editor. */
  grantableRoles: string[];
};

export type ImpactedService = {
  id: string;
  name: string;
  environmentId: string;
};

export type Invitation = {
  id: string;
  email: string;
  role: "reader" | "editor" | "owner";
  status: "invited";
  /** The e-mail address of the owner who sent the invitation. */
  invitedBy: string;
  createdAt: string;
  expiresAt: string;
  /** The invitation link. It works once, until `expiresAt`. Present only in this answer, and only for operators of an installation that sends no mail. */
  link?: string;
};

export type InvitationsPage = {
  data: Invitation[];
  page: Page;
};

export type InviteMemberRequest = {
  email: string;
  role: "reader" | "editor" | "owner";
};

export type Invoice = {
  id: string;
  periodStart: string;
  periodEnd: string;
  totalUsd: number;
  kind: "subscription" | "compute" | "proration" | "manual";
  status: "open" | "paid" | "void" | "uncollectible";
  pdfUrl?: string;
  hostedUrl?: string;
  /** The number on the invoice. */
  number?: string;
  /** The taxes in the total. */
  taxUsd: number;
};

export type InvoicesPage = {
  data: Invoice[];
  page: Page;
};

export type JoinByInvitationRequest = {
  token: string;
  /** Defaults to the part of the e-mail address before the @. */
  displayName?: string;
  /** At least 12 characters. */
  password: string;
};

export type Joined = {
  user: User;
  account: Account;
};

/** A backup of an addon that was deleted. */
export type KeptBackup = {
  id: string;
  /** The id and the name of the addon that was deleted, and where it was. */
  serviceId: string;
  serviceName: string;
  environmentName: string;
  projectName: string;
  type: "postgres" | "redis";
  trigger: "manual" | "nightly" | "uploaded";
  startedAt: string;
  sizeBytes: number;
  /** The version of the server whose data it is, such as 18.4. */
  version?: string;
  /** When it was last restored to the side and read. */
  provedAt?: string;
  /** It is deleted then. */
  keptUntil: string;
  /** The moment whose data it has, if one was asked for. */
  at?: string;
};

export type KeptBackupsPage = {
  data: KeptBackup[];
  page: Page;
};

export type LastRun = {
  id: string;
  status: "queued" | "running" | "succeeded" | "failed" | "canceled" | "timed_out" | "lost";
  /** Of a run that succeeded or failed by itself. */
  exitCode?: number;
};

export type LogLine = {
  timestamp: string;
  message: string;
  stream: "stdout" | "stderr";
  replica: string;
  /** 0 for an addon, which has no deployments. */
  version: number;
};

export type LogsPage = {
  data: LogLine[];
  page: Page;
};

export type MailDecision = {
  /** none: no mail; digest: it waits for a digest; queued; retrying; sent; failed: delivery was given up; dropped: no longer useful, or not deliverable to this address. */
  state: "none" | "digest" | "queued" | "retrying" | "sent" | "failed" | "dropped";
  attempts: number;
  /** A short reason, if it is not obvious: burst, read, healed, switched_off, empty, invitation (the identity service sends a mail about it), no_mail, not_verified, suppressed (the address was rejected earlier), user_gone, no_access, expired, or the SMTP status or error. */
  reason?: string;
  at?: string;
};

export type McpGrant = {
  clientId: string;
  clientName: string;
  accountId: string;
  accountHandle: string;
  /** reader or editor. */
  role: "reader" | "editor";
  grantedAt: string;
};

export type Me = {
  id: string;
  email: string;
  displayName: string;
  accounts: Account[];
  createdAt: string;
  /** True if the user is known to own the e-mail address. Opening a mailed link verifies it. */
  emailVerified: boolean;
};

export type Member = {
  userId: string;
  /** Only owners see this. */
  email?: string;
  displayName: string;
  role: "reader" | "editor" | "owner";
  createdAt: string;
};

export type MembersPage = {
  data: Member[];
  page: Page;
};

export type MetricPoint = {
  /** The beginning of the step. */
  at: string;
  value: number;
};

export type MetricSeries = {
  name:
    | "cpu"
    | "memory"
    | "replicas"
    | "restarts"
    | "storage_used"
    | "storage_size"
    | "connections"
    | "network_in"
    | "network_out"
    | "requests"
    | "status_2xx"
    | "status_3xx"
    | "status_4xx"
    | "status_5xx"
    | "latency_p50"
    | "latency_p95"
    | "latency_p99";
  unit: "cores" | "bytes" | "count" | "milliseconds";
  /** Oldest first. A step in which nothing was measured has no point. */
  points: MetricPoint[];
};

export type Metrics = {
  /** The beginning of the first step. It is a multiple of `step`, so it can precede the time in the request. */
  from: string;
  to: string;
  /** In seconds. */
  step: number;
  series: MetricSeries[];
  unavailable: UnavailableMetric[];
};

export type MyInvitation = {
  id: string;
  accountId: string;
  accountHandle: string;
  accountName: string;
  role: "reader" | "editor" | "owner";
  /** The e-mail address of the owner who sent the invitation. */
  invitedBy: string;
  createdAt: string;
  expiresAt: string;
};

export type MyInvitationsPage = {
  data: MyInvitation[];
  page: Page;
};

export type Notice = {
  message: string;
  at: string;
  stage: "queue" | "source" | "detect" | "build" | "push" | "resolve" | "release" | "apply" | "rollout";
  code: string;
};

export type NotificationArrived = {
  id: string;
  kind: string;
};

export type NotificationDecisions = {
  kind: string;
  /** A description of who gets this kind. */
  recipients: string;
  /** The preference that applied when the notification was created: its channel and frequency, whether mail is forced, and whether the caller had chosen it. */
  channel: "in_app" | "email" | "both" | "off";
  frequency: "immediate" | "daily" | "weekly";
  forceEmail: boolean;
  overridden: boolean;
  /** True if the notification is in the feed. */
  inApp: boolean;
  mail: MailDecision;
};

export type Notification = {
  id: string;
  userId: string;
  /** The account that the notification is about. Empty if it concerns only the user. */
  accountId: string;
  /** A key from the catalogue, such as deploy.ready. */
  kind: string;
  title: string;
  body: string;
  /** Ids and names of the resources that the notification is about. */
  metadata: Record<string, string>;
  /** Absent while the notification is unread. */
  readAt?: string;
  createdAt: string;
};

export type NotificationPref = {
  kind: string;
  label: string;
  category: "deletion" | "billing" | "member" | "deploy" | "social";
  channel: "in_app" | "email" | "both" | "off";
  frequency: "immediate" | "daily" | "weekly";
  /** True if notifications of this kind are always mailed immediately, whatever the channel. */
  forceEmail: boolean;
  /** True if the caller has stored a choice for this kind. */
  overridden: boolean;
};

export type NotificationsPage = {
  data: Notification[];
  page: Page;
};

/** An OAuth client as it describes itself. Nobody has verified these details. */
export type OauthClient = {
  clientId: string;
  clientName: string;
  clientUri: string;
  logoUri: string;
  /** The host that receives the browser with the result. For an application's own URL scheme, this is the scheme, such as `cursor:`. */
  redirectHost: string;
  /** The host of the document that describes the client. Present if the client's id is the URL of a document, absent if the client registered itself. */
  documentHost?: string;
  /** Present and true if the client is one of Berth itself, such as its command line. Any program can claim to be it. */
  firstParty?: boolean;
};

export type OauthConsentRequestView = {
  client: OauthClient;
  requestedScope: string[];
  /** URLs of the resources for which the client wants tokens. */
  requestedAudience: string[];
  /** The caller's accounts, sorted by handle. */
  accounts: GrantableAccount[];
};

export type OauthDeviceRequestView = {
  client: OauthClient;
  requestedScope: string[];
  /** URLs of the resources for which the client wants tokens. */
  requestedAudience: string[];
  /** The caller's accounts, sorted by handle. */
  accounts: GrantableAccount[];
  /** The code as the device shows it. Users compare it with what they see on the device. */
  userCode: string;
  /** The address from which the device asks. */
  ip: string;
  /** True if the caller's own request comes from the network of that address. */
  sameNetwork: boolean;
  requestedAt: string;
  /** After this time the code is unknown. */
  expiresAt: string;
};

export type OauthLoginRequestView = {
  client: OauthClient;
  /** The scope that the client asked for. The role of the consent decides what the client gets. */
  requestedScope: string[];
};

export type OauthRedirect = {
  /** Where the browser that started the authorization must go next. The URL works once, and only in that browser. */
  redirectTo: string;
};

export type OpenInvitationRequest = {
  /** The part of the link after the #. */
  token: string;
};

export type OpenTunnelRequest = {
  /** What clients log in with; by default a new random password. A program that opens one tunnel after another gives all of them the same. */
  password?: string;
};

export type OpenedInvitation = {
  email: string;
  accountHandle: string;
  accountName: string;
  role: "reader" | "editor" | "owner";
  invitedBy: string;
  expiresAt: string;
  /** True if the e-mail address already has a user. That user accepts by signing in. */
  known: boolean;
  id: string;
};

/** How to continue a list. `nextCursor` is opaque, and empty when `hasMore` is false. */
export type Page = {
  nextCursor: string;
  hasMore: boolean;
};

export type PaymentMethod = {
  /** The brand of the card, or the type of another payment method. */
  brand: string;
  last4?: string;
  expMonth?: number;
  expYear?: number;
};

export type PendingChange = {
  /** The plan from then on: pro or team. */
  tierId: string;
  cadence: "monthly" | "annual";
  at: string;
};

export type PendingCoupon = {
  /** Null if no code is saved. */
  pending: Coupon | null;
};

export type PostgresStatistics = {
  /** Of the database. */
  sizeBytes: number;
  /** How much of what was read was in the server's memory, 0 to 1. Absent before anything was read. */
  cacheHitRatio?: number;
  /** Transactions that ended with a commit, and with a rollback. */
  commits: number;
  rollbacks: number;
  deadlocks: number;
  /** Since when these and the counts of tables and indexes are counted. Absent: since the database was created. */
  statsSince?: string;
  /** The statements that run now, and those of transactions that are open, the longest first; at most 20. */
  running: RunningStatement[];
  /** The largest first; at most 20. */
  tables: TableStatistics[];
  /** Indexes that no query has used, which are neither unique nor of a primary key, the largest first; at most 20. */
  unusedIndexes: UnusedIndex[];
  /** The statements that have taken the most time together, as the server has collected them since it was set up or they were reset; at most 20. */
  statements: CollectedStatement[];
  /** Why there are no collected statements, as a sentence. */
  statementsReason?: string;
};

export type Project = {
  id: string;
  name: string;
  createdAt: string;
};

export type ProjectsPage = {
  data: Project[];
  page: Page;
};

export type PromoteServiceRequest = {
  /** The name of the addon whose name this one takes. */
  over: string;
};

export type RedeemCouponRequest = {
  code: string;
};

export type RedisMemory = {
  usedBytes: number;
  /** Absent: there is no limit. */
  maxBytes?: number;
};

export type RedisStatistics = {
  memory: RedisMemory;
  /** In all databases. */
  keys: number;
  /** How many reads found their key, 0 to 1. Absent before anything was read. */
  hitRatio?: number;
  /** Keys whose time was over, and keys that were removed for want of memory. */
  expired: number;
  evicted: number;
  /** At present. */
  commandsPerSecond: number;
  /** The newest commands that took longer than the server's `slowlog-log-slower-than`, the newest first; at most 20. */
  slow: SlowCommand[];
};

export type Refund = {
  amountUsd: number;
  currency: "usd";
  estimatedArrivalDays: number;
  /** The taxes in the amount. Absent if there are none. */
  taxUsd?: number;
};

export type RegistriesPage = {
  data: Registry[];
  page: Page;
};

export type Registry = {
  id: string;
  /** As image references have it: in lower case, with a port unless it is 443; docker.io for Docker Hub. */
  host: string;
  user: string;
  createdAt: string;
  /** When the token was last replaced. */
  rotatedAt?: string;
};

export type RejectConsentRequest = {
  consentChallenge: string;
};

export type RejectDeviceRequest = {
  userCode: string;
};

export type RejectLoginRequest = {
  loginChallenge: string;
};

/** A service or an addon that is no longer in the environment. */
export type RemovedService = {
  id: string;
};

export type ReplicaCount = {
  /** As configured: 1 for an addon. With autoscaling as many as are available, within its bounds. */
  wanted: number;
  /** How many of the release answer. */
  available: number;
};

export type RequestPasswordResetRequest = {
  email: string;
};

/** A name of a resolved set: in `variable` if it resolves, in `dangling` if it does not. */
export type ResolvedName = {
  name: string;
  variable?: ResolvedVariable;
  dangling?: DanglingVariable;
};

export type ResolvedVariable = {
  name: string;
  sensitive: boolean;
  /** Absent if the entry is sensitive. */
  value?: string;
  /** The scope that the entry comes from. */
  source: "project" | "environment" | "service";
  sourceId: string;
  sourceScopeId: string;
  connection?: Connection;
  aliasTarget?: string;
  /** The variables in wider scopes that the entry overrides. */
  shadows: Shadow[];
  /** True if the entry comes from the service's `config.env` and is not a variable. Its source is the service, and any variable with the same name takes precedence. */
  fromConfig?: boolean;
};

export type ResolvedVariables = {
  data: ResolvedVariable[];
  dangling: DanglingVariable[];
};

export type RestoreBackupRequest = {
  /** The id of the backup. Either this or `at`. */
  backup?: string;
  confirmImpact?: boolean;
  /** The moment whose data it gets back, from `backups.oldest_restorable_at` until now. */
  at?: string;
};

/** A variable that a service receives, with its value. */
export type RevealedEntry = {
  name: string;
  value: string;
  sensitive: boolean;
  /** The scope that the entry comes from. */
  source: "project" | "environment" | "service";
  sourceScopeId: string;
  /** True if the entry comes from the service's `config.env` and is not a variable. */
  fromConfig?: boolean;
};

export type RevealedVariable = {
  name: string;
  value: string;
};

export type RevealedVariables = {
  data: RevealedEntry[];
  /** Names that do not resolve, and which the service does not receive. */
  dangling: DanglingVariable[];
};

export type RollbackRequest = {
  version: number;
  dryRun?: boolean;
};

export type Run = {
  id: string;
  serviceId: string;
  /** What runs, for a shell. Absent for the start command of a cron service. */
  command?: string;
  trigger: "manual" | "schedule";
  /** `lost`: it ended, and nobody knows how, as when its machine stopped. It is not run again. */
  status: "queued" | "running" | "succeeded" | "failed" | "canceled" | "timed_out" | "lost";
  /** Of a run that succeeded or failed by itself. */
  exitCode?: number;
  /** Why the run has its status, or does not start yet, as a sentence. */
  message?: string;
  /** The version of the deployment whose artifact it runs. */
  version: number;
  /** The most that it may take. */
  timeoutSeconds: number;
  /** The id of the user who asked for it. Absent for a scheduled run. */
  requestedBy?: string;
  createdAt: string;
  startedAt?: string;
  finishedAt?: string;
  /** The time of the schedule that started it. */
  scheduledFor?: string;
};

/** The last event of a stream. */
export type RunEnd = {
  status: "succeeded" | "failed" | "canceled" | "timed_out" | "lost";
  exitCode?: number;
  /** Why the run has its status, as a sentence. */
  message?: string;
};

export type RunLogsResponse = {
  /** Empty until the run writes output. */
  logs: string;
  /** True if later output was not kept. */
  truncated: boolean;
  /** True if the run has not ended. */
  live: boolean;
  retrievedAt: string;
};

export type RunUnderWay = {
  id: string;
  status: "queued" | "running";
};

export type RunningStatement = {
  /** The process of the server that runs it. */
  pid: number;
  /** Since it began or, of one that is idle, since its transaction began. */
  seconds: number;
  /** `idleInTransaction`: it has ended, and its transaction is open. */
  state: "active" | "idle_in_transaction";
  /** What it waits for, such as `Lock: relation`. */
  wait?: string;
  /** The processes that hold what it waits for. */
  blockedBy: number[];
  /** The first 1000 characters. */
  text: string;
};

export type RunsPage = {
  data: Run[];
  page: Page;
};

/** How a release runs. Responses contain every field that has a default. */
export type ServiceConfig = {
  /** The port that the container listens on. The process receives it as PORT. Defaults to 8080. */
  port?: number;
  /** A shell runs this command instead of the detected start command. */
  command?: string;
  /** Of an addon: how many servers it has, postgres 1 to 3 and redis 1 or 2, where its capabilities say that it may. */
  replicas?: number;
  /** nano, small, medium or large. */
  size?: "nano" | "small" | "medium" | "large";
  /** A path that must answer with 2xx or 3xx before a release counts as healthy. */
  healthCheckPath?: string;
  /** Additional environment variables of the process. A variable with the same name takes precedence. */
  env?: Record<string, string>;
  /** Whether the live release is applied again when its resolved variables change. Defaults to true. */
  autoApply?: boolean;
  /** The number of seconds that a release must be available before it counts as healthy. */
  minReadySeconds?: number;
  /** The path of the Dockerfile in the source, or in `rootDirectory`. */
  dockerfile?: string;
  /** The folder of the source that is built, in place of its root. A package of a workspace is built with the packages that it depends on. */
  rootDirectory?: string;
  /** A shell command that replaces the detected one to install dependencies. */
  installCommand?: string;
  /** A shell command that replaces the detected one to build. */
  buildCommand?: string;
  /** The folder that the build fills with a static site, which is then served. */
  outputDirectory?: string;
  /** A shell command that runs once before a deployment is applied, such as a migration of the database. When it fails, the deployment fails and the live release stays. */
  releaseCommand?: string;
  /** What builds the source: `auto` decides by its files, `buildpacks` are Cloud Native Buildpacks, on clusters whose operator has turned them on. Defaults to auto. */
  builder?: "auto" | "buildpacks";
  /** Lets the number of replicas follow the CPU that they use, on a cluster. `replicas` is the number to which turning it off returns; with 0 replicas the service is stopped. In a change, an empty object turns it off. */
  autoscaling?: Autoscaling;
  /** Of a cron service: when its start command runs, as five fields (minute, hour, day of the month, month, day of the week) or one of @hourly, @daily, @weekly, @monthly, @yearly. Takes effect at once. */
  schedule?: string;
  /** Of a cron service: the IANA time zone of the schedule, such as Europe/Berlin. Defaults to UTC. */
  timeZone?: string;
  /** Of a cron service: what happens at a time of the schedule while a run has not ended. `forbid`: the time is skipped; `replace`: the run is canceled first; `allow`: both run. Defaults to forbid. */
  overlap?: "forbid" | "replace" | "allow";
  /** Of a cron service: the most seconds that a run may take. Defaults to 3600; at most a day. */
  runTimeoutSeconds?: number;
  /** Of a web service: whether it has an address for everybody. Without one, only the services of its environment reach it, and it has no domains. Defaults to true. */
  public?: boolean;
  /** Of a web service or a worker on a cluster: the path at which it serves metrics on PORT. Its pods are annotated with it for the operator's Prometheus. */
  metricsPath?: string;
  /** Of an addon: the version of its server, one of `capabilities.versions`. It is chosen when the addon is created. Defaults to the installation's version. */
  version?: string;
  /** Of an addon: the size of its volume in GiB. It can grow, and never shrinks. Defaults to the installation's size. */
  storageGib?: number;
  /** Of an addon: up to which size in GiB its volume grows by itself before it is full. 0 removes it. By default it does not grow by itself. */
  storageMaxGib?: number;
  /** Of a postgres addon on a cluster: whether it has a pooler, through which its key POOLED_URL leads. Defaults to false. */
  pooler?: boolean;
};

export type Service = {
  id: string;
  name: string;
  type: "web" | "worker" | "cron" | "postgres" | "redis";
  status:
    | "staged"
    | "pending"
    | "deploying"
    | "running"
    | "degraded"
    | "crashed"
    | "failed"
    | "stopped"
    | "deleting";
  source: ServiceSource;
  config: ServiceConfig;
  /** The URL of a web service that is public. */
  url?: string;
  /** The version of the live release. */
  liveVersion?: number;
  pendingChanges: boolean;
  staged: boolean;
  createdAt: string;
  /** Why the status is failed, crashed or degraded, or why the service is suspended. */
  statusMessage?: string;
  /** When the addon's password was last rotated. */
  credentialsRotatedAt?: string;
  /** Why the service is stopped although it is to run: the account's grace period is over, or its spend limit is reached. Its replicas start again when that ends. Absent otherwise. */
  suspended?: "free_plan" | "spend_limit";
  /** Of a cron service with a live release: when its next run is due. */
  nextRunAt?: string;
  /** Of a cron service: its newest run. */
  lastRun?: LastRun;
  /** Of an addon: what this installation can do with it. */
  capabilities?: AddonCapabilities;
  /** Of an addon: what is known of its backups. */
  backups?: AddonBackups;
  /** Of a single addon: what its server is, where it is known. */
  server?: AddonServer;
};

/** The source of deployments without an image. Set at most one of the two. For a git source, the branch is built. */
export type ServiceSource = {
  image?: string;
  git?: GitSource;
};

/** What an environment shows of a service or an addon. */
export type ServiceState = {
  id: string;
  name: string;
  type: "web" | "worker" | "cron" | "postgres" | "redis";
  status:
    | "staged"
    | "pending"
    | "deploying"
    | "running"
    | "degraded"
    | "crashed"
    | "failed"
    | "stopped"
    | "deleting";
  /** Why the status is failed, crashed or degraded, or why the service is suspended. */
  statusMessage?: string;
  /** The URL of a web service that is public. */
  url?: string;
  pendingChanges: boolean;
  staged: boolean;
  createdAt: string;
  /** The release that serves. */
  release?: ServingRelease;
  /** The newest deployment, until it is healthy, failed or superseded. */
  deployment?: DeploymentUnderWay;
  replicas: ReplicaCount;
  /** When the addon's password was last rotated. */
  credentialsRotatedAt?: string;
  /** Why the service is stopped although it is to run: the account's grace period is over, or its spend limit is reached. Its replicas start again when that ends. Absent otherwise. */
  suspended?: "free_plan" | "spend_limit";
  /** The runs that have not ended, newest first. */
  runs: RunUnderWay[];
  /** Of an addon: differs when its backups, or its last restore, have changed. Read them again then. */
  backupsRevision?: string;
};

export type ServiceUsage = {
  serviceId: string;
  serviceName: string;
  projectName: string;
  type: "web" | "worker" | "cron" | "postgres" | "redis";
  accruedUsd: number;
  allowanceAppliedUsd: number;
};

export type ServicesPage = {
  data: Service[];
  page: Page;
};

export type ServingRelease = {
  version: number;
  image?: string;
  /** Present only on deployments that were built from git. The same applies to `commit`. */
  branch?: string;
  commit?: string;
};

export type Session = {
  token: string;
  expiresAt: string;
  user: User;
};

export type SessionsPage = {
  data: ActiveSession[];
  page: Page;
};

export type SetNotificationPrefRequest = {
  kind: string;
  channel: "in_app" | "email" | "both" | "off";
  frequency: "immediate" | "daily" | "weekly";
};

export type SetSpendLimitRequest = {
  /** In US dollars, from 1 to 1,000,000, in whole cents. Absent to remove the limit. */
  limitUsd?: number;
};

export type Shadow = {
  scope: "project" | "environment" | "service";
  scopeId: string;
  id: string;
};

export type SignInRequest = {
  email: string;
  password: string;
};

export type SlowCommand = {
  at: string;
  microseconds: number;
  /** Its name alone. */
  command: string;
  /** How many arguments it had. */
  arguments: number;
};

export type SpendLimit = {
  /** Absent without a limit. */
  limitUsd?: number;
  /** What compute of the period costs so far beyond the allowance and the credit of the plan. Corrections of earlier periods do not count. */
  spentUsd: number;
  periodStart: string;
  periodEnd: string;
  /** Whether services beyond the allowance are stopped because of the limit. */
  reached: boolean;
};

export type StagedAcknowledgement = {
  /** Always true. */
  staged: boolean;
  reason: "service_not_provisioned";
};

export type Statement = {
  /** The month, as YYYY-MM. */
  month: string;
  /** The closed periods that began in the month, oldest first: usually one, more if a subscription began or ended in it. */
  periods: StatementPeriod[];
  /** The lines of all periods, oldest period first. The lines of a period add up to its charged_usd. */
  lines: StatementLine[];
  /** The sum of all lines. */
  chargedUsd: number;
};

export type StatementLine = {
  periodStart: string;
  periodEnd: string;
  /** `notCharged` takes back what periods come to that are not billed, or that the next subscription charges. */
  kind: "service" | "adjustment" | "carried_over" | "rounding" | "credit" | "tax" | "not_charged";
  /** What the line is for. */
  description: string;
  /** The service, for lines of this kind. */
  serviceId?: string;
  serviceName?: string;
  projectName?: string;
  serviceType?: string;
  /** For a service: the price of what ran, and the part of it that the allowance pays. */
  usageUsd?: number;
  allowanceUsd?: number;
  /** What the line adds, exact to nine decimals. */
  amountUsd: number;
};

/** What compute cost in a period. usage_usd − allowance_usd + adjustment_usd + carried_over_usd + rounding_usd is due_usd. */
export type StatementPeriod = {
  periodStart: string;
  periodEnd: string;
  /** The plan of the period. */
  tierId: string;
  /** Whether it was a period of a subscription. Other periods are only shown, and nothing is charged for them. */
  billed: boolean;
  /** The price of everything that ran. */
  usageUsd: number;
  /** The part of it that the allowance pays. */
  allowanceUsd: number;
  /** Corrections of earlier periods. A positive amount is owed, a negative one is returned. */
  adjustmentUsd: number;
  /** What could not be returned in this period, and was carried over to the next one. */
  carriedOverUsd: number;
  /** What rounding to whole cents added. */
  roundingUsd: number;
  /** The amount in whole cents, before the credit. */
  dueUsd: number;
  /** The part of it that the plan's credit paid. */
  creditUsd: number;
  /** The amount that was charged, with taxes. */
  chargedUsd: number;
  /** The invoice that charges the amount. Absent until the payment provider reports it, and for periods that are not billed. */
  invoiceId?: string;
  invoiceNumber?: string;
  /** What the invoice charges for the period, before the credit. A difference to due_usd is an adjustment of a later period. */
  invoicedUsd?: number;
  /** When the period was closed. Since then its amounts have not changed, except for taxes. */
  closedAt: string;
  /** The taxes that the invoice adds. Absent until the payment provider reports it, and without taxes. */
  taxUsd?: number;
};

export type StatementSummary = {
  /** The month, as YYYY-MM. */
  month: string;
  /** When the first period that began in the month began, and when the last one ended. */
  periodStart: string;
  periodEnd: string;
  /** The price of everything that ran, before allowance and credit. */
  usageUsd: number;
  /** The amount that was charged for compute. */
  chargedUsd: number;
};

export type StatementsPage = {
  data: StatementSummary[];
  page: Page;
};

/** The clients that are connected, without the one that reads this. */
export type StatisticsConnections = {
  open: number;
  /** Of these, those that run a statement. PostgreSQL only. */
  active?: number;
  /** Of these, those in a transaction that runs no statement. PostgreSQL only. */
  idleInTransaction?: number;
  /** How many there may be. */
  max: number;
};

export type Statistics = {
  readAt: string;
  /** Of the server, such as 18.1. */
  version: string;
  /** For how long the server has run, in seconds. */
  uptimeSeconds: number;
  connections: StatisticsConnections;
  /** Of a PostgreSQL addon. */
  postgres?: PostgresStatistics;
  /** Of a Redis addon. */
  redis?: RedisStatistics;
};

/** Begins a frame of a followed set. */
export type StreamBegin = {
  /** `full`: the frame has the whole set, which replaces what the client has. `changes`: it changes what the client has. `none`: the client has the current set. */
  mode: "full" | "changes" | "none";
};

/** Ends a frame: only now does what it changes apply. */
export type StreamCommit = {
  /** Names the state of the set. It is also the event's id. Only equal or different means anything. */
  revision: string;
};

export type SubscriptionChange = {
  /** Whether it takes effect now or when the current period ends; `none` if nothing is different from now on. */
  effect: "now" | "period_end" | "none";
  /** The plan and the cadence from `effectiveAt` on. */
  tierId: string;
  cadence: "monthly" | "annual";
  effectiveAt: string;
  /** The time, by the payment provider's clock, from which time is charged. */
  asOf: string;
  /** What is charged and returned now. An amount below 0 returns what was paid for time that is left. */
  lines: ChangeLine[];
  /** What a promo code takes off the lines. */
  discountUsd: number;
  /** Taxes that are not in the prices. */
  taxUsd: number;
  /** What the customer's balance changes: less than 0 if it pays a part, more if an amount of earlier invoices is added. */
  balanceUsd: number;
  /** What is charged now. */
  totalUsd: number;
  /** When the plan is charged next, and with how much for plan and members, if both stay as they are; with tax. */
  renewsAt: string;
  renewalUsd: number;
  /** The members beyond those that the plan includes. */
  additionalMembers: number;
  /** What the plan pays of compute in each period that begins from then on. */
  creditUsd: number;
  /** The limits of the plan that the account exceeds now. */
  exceeded: ExceededLimit[];
  /** What gets smaller, as sentences. */
  warnings: string[];
};

export type Subscription = {
  id: string;
  accountId: string;
  status:
    | "active"
    | "trialing"
    | "past_due"
    | "canceled"
    | "paused"
    | "unpaid"
    | "incomplete"
    | "incomplete_expired";
  cadence: "monthly" | "annual";
  /** When the plan's current period ends. */
  currentPeriodEnd: string;
  /** The prices of `priceVersion` apply until this time. Absent while they are current. */
  legacyUntil?: string;
  cancelAtPeriodEnd: boolean;
  /** The price list of the subscription, as YYYY-MM. */
  priceVersion: string;
  couponCode?: string;
  coupon?: Coupon;
  items: SubscriptionItem[];
  /** At most 24 invoices, newest first. Empty until the payment provider reports the first invoice. */
  invoices: Invoice[];
  /** The payment method of the subscription. Absent if none is on file. */
  paymentMethod?: PaymentMethod;
  /** The change of plan or cadence that begins when the current period ends. Absent if there is none. */
  pendingChange?: PendingChange;
};

export type SubscriptionItem = {
  kind: "plan" | "seat" | "compute";
  /** The plan for `plan` and `seat` items, and `compute` for compute. */
  ref: string;
  /** 0 for compute, which is metered. */
  quantity: number;
  unitPriceUsd: number;
};

export type TableStatistics = {
  /** With its schema unless that is `public`. */
  name: string;
  /** With its indexes. An estimate while somebody else has locked it exclusively. */
  sizeBytes: number;
  /** An estimate. */
  rows: number;
  /** How often all of it was read, and how often by an index. */
  seqScans: number;
  indexScans: number;
  /** Rows that were deleted or replaced and not yet vacuumed; an estimate. */
  deadRows: number;
  lastVacuumAt?: string;
};

export type Token = {
  id: string;
  name: string;
  lastFour: string;
  roleCap?: "reader" | "editor" | "owner";
  accountId?: string;
  createdAt: string;
  expiresAt: string;
  lastUsedAt?: string;
};

export type TokensPage = {
  data: Token[];
  page: Page;
};

export type Tunnel = {
  /** Where the WebSocket is opened, at the origin of the API. A secret: whoever has it reaches the server, which still asks for a password. */
  path: string;
  /** Until then connections can begin, 5 minutes after the request. Each may last for 8 hours. */
  expiresAt: string;
  /** As which user clients log in; absent for redis, which has none. */
  user?: string;
  /** What they log in with, only through this tunnel. That of the addon is accepted too. */
  password: string;
  /** The database of the addon; absent for redis. */
  database?: string;
};

export type TypeAllowance = {
  appliedUsd: number;
  coveredServiceId: string;
};

export type UnavailableMetric = {
  /** The name of a series that is left out. */
  name: string;
  /** Why, as a sentence. */
  message: string;
};

export type UnreadCount = {
  count: number;
};

/** A name that is no longer in the set. */
export type UnsetName = {
  name: string;
};

export type Unsubscription = {
  /** The kind whose mails the link ends. Or daily or weekly, for the mails of all kinds in this digest. */
  of: string;
  /** Before unsubscribing: the kinds that are mailed and that the link would end. Afterwards: the kinds that ended, with their new preferences. */
  preferences: NotificationPref[];
};

export type UnusedIndex = {
  name: string;
  /** With its schema unless that is `public`. */
  table: string;
  sizeBytes: number;
};

export type UpdateAccountRequest = {
  handle?: string;
  displayName?: string;
};

export type UpdateEnvironmentRequest = {
  name: string;
};

export type UpdateMeRequest = {
  displayName?: string;
};

export type UpdateMemberRequest = {
  role: "reader" | "editor" | "owner";
};

export type UpdateProjectRequest = {
  name: string;
};

export type UpdateRegistryRequest = {
  user?: string;
  token: string;
};

export type UpdateServiceRequest = {
  /** Replaces the whole source. */
  source?: ServiceSource;
  /** Omitted fields keep their values. An empty command, path or `healthCheckPath` removes the setting. `env` is merged by name. */
  config?: ServiceConfig;
  /** Names of the environment variables to remove from config.env. */
  unsetEnv?: string[];
  /** The new name of a web, worker or cron service. */
  name?: string;
};

export type UpdateSubscriptionRequest = {
  /** pro or team. A member that is left out stays as it is, or as a pending change makes it. */
  tierId?: string;
  cadence?: "monthly" | "annual";
  /** Only false, and without other members: undoes a cancellation. DELETE cancels. */
  cancelAtPeriodEnd?: boolean;
  /** The `asOf` of the preview, if it is at most ten minutes old: time is charged from then on, so that the amounts are those of the preview. The present time if left out. */
  asOf?: string;
  /** The `totalUsd` of the preview. If the change would charge another amount by now, it is refused. */
  totalUsd?: number;
};

export type UpdateVariableRequest = {
  value?: string;
  connection?: Connection;
  aliasTarget?: string;
  sensitive?: boolean;
};

export type UpdateWebhookRequest = {
  url?: string;
  description?: string;
  /** Replaces the list. An empty list changes nothing. */
  events?: string[];
  format?: "standard" | "slack";
  enabled?: boolean;
};

export type UploadTarget = {
  uploadUrl: string;
  archiveRef: string;
  method: "PUT";
  /** The exact Content-Type that the upload must send. */
  contentType: string;
  expiresInSeconds: number;
};

export type User = {
  id: string;
  email: string;
  displayName: string;
  createdAt: string;
};

export type Variable = {
  id: string;
  name: string;
  scope: "project" | "environment" | "service";
  scopeId: string;
  sensitive: boolean;
  /** Present only on a literal that is not sensitive. */
  value?: string;
  connection?: Connection;
  aliasTarget?: string;
  createdAt: string;
  updatedAt: string;
};

/** A variable to create or overwrite in a batch. */
export type VariableEntry = {
  name: string;
  value?: string;
  connection?: Connection;
  aliasTarget?: string;
  sensitive?: boolean;
};

export type VariableImpact = {
  services: ImpactedService[];
  total: number;
};

export type VariablesPage = {
  data: Variable[];
  page: Page;
};

export type WebhookDeliveriesPage = {
  data: WebhookDelivery[];
  page: Page;
};

export type WebhookDelivery = {
  /** The same in every attempt and replay: the header webhook-id. */
  id: string;
  webhookId: string;
  /** The kind of the event. */
  kind: string;
  /** pending: it waits for its first or next attempt, or is being sent; delivered: the receiver answered 2xx; failed: it was given up. */
  state: "pending" | "delivered" | "failed";
  /** Attempts so far, since the last replay. */
  attempts: number;
  /** The status of the last response. */
  status?: number;
  /** Why the last attempt failed, if not by the status of a response. disabled: the webhook was disabled first; interrupted: what became of it is not known. */
  error?:
    | "timeout"
    | "address_refused"
    | "name_not_found"
    | "connection_failed"
    | "certificate_invalid"
    | "disabled"
    | "interrupted";
  createdAt: string;
  attemptedAt?: string;
  /** When it is sent next. Only while it is pending. */
  nextAttemptAt?: string;
  /** What is sent. Only in the answer for a single delivery. */
  body?: string;
};

export type Webhook = {
  id: string;
  accountId: string;
  /** Where events are sent, by POST. */
  url: string;
  description: string;
  /** Kinds of events, such as deploy.failed; deploy.* for all kinds that begin so; * for all. */
  events: string[];
  /** standard: the body is {type, timestamp, data}; slack: it is {text}, as Slack's incoming webhooks take it. */
  format: "standard" | "slack";
  enabled: boolean;
  /** Why it is disabled. requested: an owner disabled it; failing: for three days everything failed; gone: the receiver answered 410. */
  disabledReason?: "requested" | "failing" | "gone";
  disabledAt?: string;
  createdAt: string;
  /** When a delivery succeeded last. */
  succeededAt?: string;
  /** The secret with which receivers verify signatures: whsec_ and base64. Only after it was made. */
  secret?: string;
};

export type WebhooksPage = {
  data: Webhook[];
  page: Page;
};

/** A variable after a write. */
export type WrittenVariable = {
  id: string;
  name: string;
  scope: "project" | "environment" | "service";
  scopeId: string;
  sensitive: boolean;
  /** Present only on a literal that is not sensitive. */
  value?: string;
  connection?: Connection;
  aliasTarget?: string;
  createdAt: string;
  updatedAt: string;
  /** For an alias: at most 20 services in which it is part of a cycle that the variables of the service or of its environment close. For a connection: at most 20 environments in which it does not resolve yet. For PORT: at most 20 environments, whose services do not receive it. */
  warnings: AliasWarning[];
};

/** The client's description of itself (RFC 7591, section 2). Unknown fields are ignored. */
export type ClientMetadata = {
  /** The URIs to which users can be redirected: 1 to 10, each with at most 1024 characters. None for a client that only runs on devices without a browser. */
  redirect_uris?: string[];
  /** The name that users see. */
  client_name?: string;
  /** The https URL of the client's home page. */
  client_uri?: string;
  /** The https URL of the client's logo. Berth never fetches it. */
  logo_uri?: string;
  /** The https URL of the terms of service. */
  tos_uri?: string;
  /** The https URL of the privacy policy. */
  policy_uri?: string;
  /** `authorization_code`, `urn:ietf:params:oauth:grant-type:device_code`, or both, and always `refresh_token`. Defaults to `authorization_code`. */
  grant_types?: string[];
  /** `code`, or nothing for a client that only runs on devices. */
  response_types?: string[];
  /** Always `none`, whatever the client requests: clients use PKCE instead. */
  token_endpoint_auth_method?: string;
  /** `native` or `web`. Defaults to the type that fits the redirect URIs. */
  application_type?: string;
  /** The scopes that the client may request, separated by spaces. */
  scope?: string;
  /** How to contact the people responsible for the client. */
  contacts?: string[];
  /** An identifier of the software, the same for all of its installations. */
  software_id?: string;
  /** The version of the software. */
  software_version?: string;
};

/** The registered client (RFC 7591, section 3.2.1). It has no secret. */
export type RegisteredClient = {
  /** The id of the client. */
  client_id: string;
  /** When the client was registered, in seconds since 1970. */
  client_id_issued_at: number;
  /** The URIs to which users can be redirected: 1 to 10, each with at most 1024 characters. None for a client that only runs on devices without a browser. */
  redirect_uris: string[];
  /** The name that users see. */
  client_name: string;
  /** The https URL of the client's home page. */
  client_uri?: string;
  /** The https URL of the client's logo. Berth never fetches it. */
  logo_uri?: string;
  /** The https URL of the terms of service. */
  tos_uri?: string;
  /** The https URL of the privacy policy. */
  policy_uri?: string;
  /** `authorization_code`, `urn:ietf:params:oauth:grant-type:device_code`, or both, and always `refresh_token`. Defaults to `authorization_code`. */
  grant_types: string[];
  /** `code`, or nothing for a client that only runs on devices. */
  response_types: string[];
  /** Always `none`, whatever the client requests: clients use PKCE instead. */
  token_endpoint_auth_method: string;
  /** `native` or `web`. Defaults to the type that fits the redirect URIs. */
  application_type: string;
  /** The scopes that the client may request, separated by spaces. */
  scope: string;
  /** How to contact the people responsible for the client. */
  contacts?: string[];
  /** An identifier of the software, the same for all of its installations. */
  software_id?: string;
  /** The version of the software. */
  software_version?: string;
};
