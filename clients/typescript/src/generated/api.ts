// Generated from gateway/openapi.json by clients/generate. Do not edit.

import type { Caller, CallOptions } from "../caller.ts";
import { Pages } from "../pages.ts";
import {
  type AccountAddress,
  type EnvironmentAddress,
  type ProjectAddress,
  part,
  pathTo,
  type ServiceAddress,
} from "../path.ts";
import type { StreamEvent, StreamOptions } from "../streams.ts";
import type {
  Account,
  AccountGrant,
  AccountGrantsPage,
  AccountsPage,
  ApplyResult,
  AuditEventsPage,
  Backup,
  BackupDownload,
  BackupsPage,
  BackupUpload,
  BatchVariablesRequest,
  BatchVariablesResult,
  BillingPortal,
  BuildLogPiece,
  BuildLogRestart,
  BuildLogsResponse,
  CancellationPreview,
  CancelSubscriptionResult,
  ChangePasswordRequest,
  CheckoutPreview,
  CheckoutSession,
  ClientMetadata,
  CompleteConsentRequest,
  CompleteDeviceRequest,
  CompleteLoginRequest,
  CompletePasswordResetRequest,
  ComputeUsage,
  ComputeUsageLinesPage,
  CreateAccountRequest,
  CreateBackupRequest,
  CreateBackupUploadRequest,
  CreateDomainRequest,
  CreatedToken,
  CreateEnvironmentRequest,
  CreateProjectRequest,
  CreateRegistryRequest,
  CreateRunRequest,
  CreateServiceRequest,
  CreateSubscriptionRequest,
  CreateTokenRequest,
  CreateUploadRequest,
  CreateVariableRequest,
  CreateWebhookRequest,
  DeleteAccountRequest,
  DeleteEnvironmentRequest,
  DeleteMeRequest,
  DeleteProjectRequest,
  DeleteServiceRequest,
  DeleteVariableRequest,
  DeployFromArchiveRequest,
  Deployment,
  DeploymentsPage,
  DeployRequest,
  Domain,
  DomainsPage,
  DryRun,
  Empty,
  Environment,
  EnvironmentsPage,
  FollowEnd,
  Invitation,
  InvitationsPage,
  InviteMemberRequest,
  InvoicesPage,
  JoinByInvitationRequest,
  Joined,
  KeptBackup,
  KeptBackupsPage,
  LogLine,
  LogsPage,
  McpGrant,
  Me,
  Member,
  MembersPage,
  Metrics,
  MyInvitationsPage,
  Notification,
  NotificationArrived,
  NotificationDecisions,
  NotificationPref,
  NotificationsPage,
  OauthConsentRequestView,
  OauthDeviceRequestView,
  OauthLoginRequestView,
  OauthRedirect,
  OpenedInvitation,
  OpenInvitationRequest,
  OpenTunnelRequest,
  PendingCoupon,
  Project,
  ProjectsPage,
  PromoteServiceRequest,
  RedeemCouponRequest,
  RegisteredClient,
  RegistriesPage,
  Registry,
  RejectConsentRequest,
  RejectDeviceRequest,
  RejectLoginRequest,
  RemovedService,
  RequestPasswordResetRequest,
  ResolvedName,
  ResolvedVariables,
  RestoreBackupRequest,
  RevealedVariable,
  RevealedVariables,
  RollbackRequest,
  Run,
  RunEnd,
  RunLogsResponse,
  RunsPage,
  Service,
  ServiceState,
  ServicesPage,
  Session,
  SessionsPage,
  SetNotificationPrefRequest,
  SetSpendLimitRequest,
  SignInRequest,
  SpendLimit,
  StagedAcknowledgement,
  Statement,
  StatementsPage,
  Statistics,
  StreamBegin,
  StreamCommit,
  Subscription,
  SubscriptionChange,
  TokensPage,
  Tunnel,
  UnreadCount,
  UnsetName,
  Unsubscription,
  UpdateAccountRequest,
  UpdateEnvironmentRequest,
  UpdateMemberRequest,
  UpdateMeRequest,
  UpdateProjectRequest,
  UpdateRegistryRequest,
  UpdateServiceRequest,
  UpdateSubscriptionRequest,
  UpdateVariableRequest,
  UpdateWebhookRequest,
  UploadTarget,
  Variable,
  VariableImpact,
  VariablesPage,
  Webhook,
  WebhookDeliveriesPage,
  WebhookDelivery,
  WebhooksPage,
  WrittenVariable,
} from "./types.ts";

/** All operations of the API, each a method of its subject. */
export class Operations {
  readonly #caller: Caller;

  constructor(caller: Caller) {
    this.#caller = caller;
  }

  readonly accounts = {
    /**
     * Creates an account. The caller becomes its first owner.
     *
     * Role: signed in. Users only.
     */
    create: (body: CreateAccountRequest, options?: CallOptions): Promise<Account> =>
      this.#caller.call<Account>("POST", "/accounts", { body, options }),
    /**
     * Lists the caller's accounts, newest first.
     *
     * Role: signed in.
     */
    list: (
      query?: {
        /** The number of entries per page. Defaults to 20. */ limit?: number;
      },
      options?: CallOptions,
    ): Pages<AccountsPage> =>
      new Pages<AccountsPage>((cursor) =>
        this.#caller.call("GET", "/accounts", { query: { ...query, cursor }, options }),
      ),
    /**
     * Returns an account with the caller's role, the plan and the limits of the plan.
     *
     * Role: reader.
     */
    get: (at: AccountAddress, options?: CallOptions): Promise<Account> =>
      this.#caller.call<Account>("GET", `${pathTo(at, 1)}`, { options }),
    /**
     * Changes the handle or the display name of an account.
     *
     * Role: owner. Users only.
     */
    update: (at: AccountAddress, body?: UpdateAccountRequest, options?: CallOptions): Promise<Account> =>
      this.#caller.call<Account>("PATCH", `${pathTo(at, 1)}`, { body, options }),
    /**
     * Permanently deletes an account and everything in it. `confirmImpact` is required; without it, 409 impact_confirmation_required lists what would be deleted. While the account has a running subscription, the answer is 409 subscription_active.
     *
     * Role: owner. Users only.
     */
    delete: (at: AccountAddress, body?: DeleteAccountRequest, options?: CallOptions): Promise<void> =>
      this.#caller.call<void>("DELETE", `${pathTo(at, 1)}`, { body, options, deletes: true }),
  };

  readonly members = {
    /**
     * Invites someone by e-mail address. The answer does not depend on whether a user has that address. Nobody becomes a member without accepting. If the installation sends mail, it mails a link to the address. Otherwise the answer contains the `link`, but only for operators: the owners of the installation's first account.
     *
     * Role: owner. Users only.
     */
    invite: (at: AccountAddress, body: InviteMemberRequest, options?: CallOptions): Promise<Invitation> =>
      this.#caller.call<Invitation>("POST", `${pathTo(at, 1)}/members`, { body, options }),
    /**
     * Lists the members of an account with their names and roles, newest first. Owners also see the e-mail addresses.
     *
     * Role: reader.
     */
    list: (
      at: AccountAddress,
      query?: {
        /** The number of entries per page. Defaults to 20. */ limit?: number;
      },
      options?: CallOptions,
    ): Pages<MembersPage> =>
      new Pages<MembersPage>((cursor) =>
        this.#caller.call("GET", `${pathTo(at, 1)}/members`, { query: { ...query, cursor }, options }),
      ),
    /**
     * Returns a member of an account. Only owners see the e-mail address.
     *
     * Role: reader.
     */
    get: (at: AccountAddress, userId: string, options?: CallOptions): Promise<Member> =>
      this.#caller.call<Member>("GET", `${pathTo(at, 1)}/members/${part(userId)}`, { options }),
    /**
     * Changes a member's role. An account keeps at least one owner; demoting the last one is answered with 409 last_owner.
     *
     * Role: owner. Users only.
     */
    update: (
      at: AccountAddress,
      userId: string,
      body: UpdateMemberRequest,
      options?: CallOptions,
    ): Promise<Member> =>
      this.#caller.call<Member>("PATCH", `${pathTo(at, 1)}/members/${part(userId)}`, { body, options }),
    /**
     * Removes a member. The account refuses the member's tokens immediately. Owners can remove any member. Other members can remove only themselves, that is, leave the account. An account keeps at least one owner; removing the last one is answered with 409 last_owner.
     *
     * Role: reader. Users only.
     */
    remove: (at: AccountAddress, userId: string, options?: CallOptions): Promise<void> =>
      this.#caller.call<void>("DELETE", `${pathTo(at, 1)}/members/${part(userId)}`, {
        options,
        deletes: true,
      }),
  };

  readonly invitations = {
    /**
     * Lists the open invitations of an account, newest first. Expired invitations stay in the list for 30 days and can be resent during that time.
     *
     * Role: owner.
     */
    list: (
      at: AccountAddress,
      query?: {
        /** The number of entries per page. Defaults to 20. */ limit?: number;
      },
      options?: CallOptions,
    ): Pages<InvitationsPage> =>
      new Pages<InvitationsPage>((cursor) =>
        this.#caller.call("GET", `${pathTo(at, 1)}/invitations`, { query: { ...query, cursor }, options }),
      ),
    /**
     * Returns an open invitation of an account.
     *
     * Role: owner.
     */
    get: (at: AccountAddress, invitationId: string, options?: CallOptions): Promise<Invitation> =>
      this.#caller.call<Invitation>("GET", `${pathTo(at, 1)}/invitations/${part(invitationId)}`, { options }),
    /**
     * Creates a new link, which is valid for 7 days, and mails it. The previous link stops working.
     *
     * Role: owner. Users only.
     */
    resend: (at: AccountAddress, invitationId: string, options?: CallOptions): Promise<Invitation> =>
      this.#caller.call<Invitation>("POST", `${pathTo(at, 1)}/invitations/${part(invitationId)}/resend`, {
        options,
      }),
    /**
     * Withdraws an invitation. Its link stops working.
     *
     * Role: owner. Users only.
     */
    withdraw: (at: AccountAddress, invitationId: string, options?: CallOptions): Promise<void> =>
      this.#caller.call<void>("DELETE", `${pathTo(at, 1)}/invitations/${part(invitationId)}`, {
        options,
        deletes: true,
      }),
    /**
     * Lists the invitations to the caller's e-mail address, newest first. The list is empty if the address is not verified.
     *
     * Role: signed in. Users only.
     */
    listMine: (
      query?: {
        /** The number of entries per page. Defaults to 20. */ limit?: number;
      },
      options?: CallOptions,
    ): Pages<MyInvitationsPage> =>
      new Pages<MyInvitationsPage>((cursor) =>
        this.#caller.call("GET", "/me/invitations", { query: { ...query, cursor }, options }),
      ),
    /**
     * Accepts an invitation and returns the account. The caller becomes a member.
     *
     * Role: signed in. Users only.
     */
    accept: (invitationId: string, options?: CallOptions): Promise<Account> =>
      this.#caller.call<Account>("POST", `/me/invitations/${part(invitationId)}/accept`, { options }),
    /**
     * Declines an invitation.
     *
     * Role: signed in. Users only.
     */
    decline: (invitationId: string, options?: CallOptions): Promise<void> =>
      this.#caller.call<void>("POST", `/me/invitations/${part(invitationId)}/decline`, { options }),
    /**
     * Returns the invitation of a link. The link can still be used afterwards.
     *
     * Role: none.
     */
    open: (body: OpenInvitationRequest, options?: CallOptions): Promise<OpenedInvitation> =>
      this.#caller.call<OpenedInvitation>("POST", "/invitations/open", { body, options, once: true }),
    /**
     * Creates a user from the link of an invitation and makes the user a member. If the e-mail address already has a user, the answer is 409 user_exists. That user signs in and accepts the invitation at /me/invitations.
     *
     * Role: none.
     */
    join: (body: JoinByInvitationRequest, options?: CallOptions): Promise<Joined> =>
      this.#caller.call<Joined>("POST", "/invitations/join", { body, options, once: true }),
  };

  readonly auditEvents = {
    /**
     * Lists the account's audit log, newest first. Each record says what was done, by whom and from which IP address.
     *
     * Role: owner.
     */
    list: (
      at: AccountAddress,
      query?: {
        /** The number of entries per page. Defaults to 20. */
        limit?: number /** Returns only records of this action. */;
        action?: string /** Returns only records of the actor with this id. */;
        actor?: string /** Returns only records from this time on. */;
        since?: string /** Returns only records of this target. A variable is found as SCOPE_ID/NAME, also in batches; the scope's id is that of the project, environment or service that has it. */;
        target?: string;
      },
      options?: CallOptions,
    ): Pages<AuditEventsPage> =>
      new Pages<AuditEventsPage>((cursor) =>
        this.#caller.call("GET", `${pathTo(at, 1)}/audit-events`, { query: { ...query, cursor }, options }),
      ),
  };

  readonly grants = {
    /**
     * Lists the applications that members have connected to an account, newest first.
     *
     * Role: owner.
     */
    list: (
      at: AccountAddress,
      query?: {
        /** The number of entries per page. Defaults to 20. */ limit?: number;
      },
      options?: CallOptions,
    ): Pages<AccountGrantsPage> =>
      new Pages<AccountGrantsPage>((cursor) =>
        this.#caller.call("GET", `${pathTo(at, 1)}/grants`, { query: { ...query, cursor }, options }),
      ),
    /**
     * Returns an application that a member has connected to an account. After its access has ended, the answer is 404.
     *
     * Role: owner.
     */
    get: (at: AccountAddress, grantId: string, options?: CallOptions): Promise<AccountGrant> =>
      this.#caller.call<AccountGrant>("GET", `${pathTo(at, 1)}/grants/${part(grantId)}`, { options }),
    /**
     * Revokes the access of an application that a member has connected to the account. Its tokens stop working immediately.
     *
     * Role: owner. Users only.
     */
    revoke: (at: AccountAddress, grantId: string, options?: CallOptions): Promise<void> =>
      this.#caller.call<void>("DELETE", `${pathTo(at, 1)}/grants/${part(grantId)}`, {
        options,
        deletes: true,
      }),
  };

  readonly me = {
    /**
     * Returns the caller's user and accounts.
     *
     * Role: signed in. Users only.
     */
    get: (options?: CallOptions): Promise<Me> => this.#caller.call<Me>("GET", "/me", { options }),
    /**
     * Changes the caller's display name, which all accounts share.
     *
     * Role: signed in. Users only.
     */
    update: (body?: UpdateMeRequest, options?: CallOptions): Promise<Me> =>
      this.#caller.call<Me>("PATCH", "/me", { body, options }),
    /**
     * Permanently deletes the caller. The caller's sessions, tokens, memberships and application grants end immediately. A caller who is the only owner of an account must first make another member an owner, or delete the account. Otherwise the answer is 409 last_owner, which lists the accounts. The audit log keeps only the user's id.
     *
     * Role: signed in. Users only.
     */
    delete: (body: DeleteMeRequest, options?: CallOptions): Promise<void> =>
      this.#caller.call<void>("DELETE", "/me", { body, options, deletes: true }),
    /**
     * Changes the caller's password and ends all of the caller's other sessions. Personal tokens stay valid.
     *
     * Role: signed in. Users only.
     */
    changePassword: (body: ChangePasswordRequest, options?: CallOptions): Promise<void> =>
      this.#caller.call<void>("PUT", "/me/password", { body, options }),
    /**
     * Lists the clients that have access to the caller's accounts, newest first.
     *
     * Role: signed in. Users only.
     */
    listGrants: (options?: CallOptions): Promise<McpGrant[]> =>
      this.#caller.call<McpGrant[]>("GET", "/me/mcp-grants", { options }),
    /**
     * Revokes all of the caller's grants to a client, in all accounts. The client's tokens stop working immediately.
     *
     * Role: signed in. Users only.
     */
    revokeGrants: (clientId: string, options?: CallOptions): Promise<void> =>
      this.#caller.call<void>("DELETE", `/me/mcp-grants/${part(clientId)}`, { options, deletes: true }),
  };

  readonly sessions = {
    /**
     * Exchanges an e-mail address and a password for a session token. The session ends 7 days after sign-in, or after 12 hours without use. A wrong password and an unknown e-mail address get the same answer.
     *
     * Role: none.
     */
    signIn: (body: SignInRequest, options?: CallOptions): Promise<Session> =>
      this.#caller.call<Session>("POST", "/sessions", { body, options, once: true }),
    /**
     * Ends the session whose token authenticates the request.
     *
     * Role: signed in. Users only.
     */
    signOut: (options?: CallOptions): Promise<void> =>
      this.#caller.call<void>("DELETE", "/sessions", { options, deletes: true }),
    /**
     * Lists the caller's active sessions, newest first.
     *
     * Role: signed in. Users only.
     */
    list: (
      query?: {
        /** The number of entries per page. Defaults to 20. */ limit?: number;
      },
      options?: CallOptions,
    ): Pages<SessionsPage> =>
      new Pages<SessionsPage>((cursor) =>
        this.#caller.call("GET", "/me/sessions", { query: { ...query, cursor }, options }),
      ),
    /**
     * Ends one of the caller's sessions. Its token stops working immediately.
     *
     * Role: signed in. Users only.
     */
    end: (sessionId: string, options?: CallOptions): Promise<void> =>
      this.#caller.call<void>("DELETE", `/me/sessions/${part(sessionId)}`, { options, deletes: true }),
  };

  readonly tokens = {
    /**
     * Creates a personal token. The token is valid for 90 days unless `expiresInDays` sets another lifetime. Only this answer contains the token itself. A user can have at most 100 tokens.
     *
     * Role: signed in. Users only.
     */
    create: (body: CreateTokenRequest, options?: CallOptions): Promise<CreatedToken> =>
      this.#caller.call<CreatedToken>("POST", "/me/tokens", { body, options }),
    /**
     * Lists the caller's valid personal tokens, newest first. The list does not contain the tokens themselves.
     *
     * Role: signed in. Users only.
     */
    list: (
      query?: {
        /** The number of entries per page. Defaults to 20. */ limit?: number;
      },
      options?: CallOptions,
    ): Pages<TokensPage> =>
      new Pages<TokensPage>((cursor) =>
        this.#caller.call("GET", "/me/tokens", { query: { ...query, cursor }, options }),
      ),
    /**
     * Revokes one of the caller's personal tokens. It stops working immediately.
     *
     * Role: signed in. Users only.
     */
    revoke: (tokenId: string, options?: CallOptions): Promise<void> =>
      this.#caller.call<void>("DELETE", `/me/tokens/${part(tokenId)}`, { options, deletes: true }),
  };

  readonly passwordResets = {
    /**
     * Mails a link for setting a new password to the user with this e-mail address. The answer is the same if no such user exists. An installation that sends no mail answers 409 mail_not_configured.
     *
     * Role: none.
     */
    request: (body: RequestPasswordResetRequest, options?: CallOptions): Promise<Empty> =>
      this.#caller.call<Empty>("POST", "/password-resets", { body, options, once: true }),
    /**
     * Sets a new password with a mailed link and ends all of the user's sessions. A link works once and is valid for an hour.
     *
     * Role: none.
     */
    complete: (body: CompletePasswordResetRequest, options?: CallOptions): Promise<void> =>
      this.#caller.call<void>("POST", "/password-resets/complete", { body, options, once: true }),
  };

  readonly oauth = {
    /**
     * Registers an OAuth client according to RFC 7591. Anyone can register a client, and nobody verifies what it says about itself. Every client is public and uses PKCE.
     *
     * Role: none.
     */
    registerClient: (body: ClientMetadata, options?: CallOptions): Promise<RegisteredClient> =>
      this.#caller.call<RegisteredClient>("POST", "/oauth/register", { body, options, once: true }),
    /**
     * Returns the client that asks a user to sign in. An expired, used or unknown challenge gets 422 challenge_expired.
     *
     * Role: none.
     */
    getLoginRequest: (
      query?: {
        /** The login_challenge parameter of the redirect. */ challenge?: string;
      },
      options?: CallOptions,
    ): Promise<OauthLoginRequestView> =>
      this.#caller.call<OauthLoginRequestView>("GET", "/oauth/login-request", { query, options }),
    /**
     * Confirms to the provider that the caller is the user who signed in. The browser that started the login continues at redirectTo.
     *
     * Role: signed in. Users only.
     */
    completeLogin: (body: CompleteLoginRequest, options?: CallOptions): Promise<OauthRedirect> =>
      this.#caller.call<OauthRedirect>("POST", "/oauth/login/complete", { body, options }),
    /**
     * Denies the login and ends the authorization. The client receives access_denied at redirectTo.
     *
     * Role: none.
     */
    rejectLogin: (body: RejectLoginRequest, options?: CallOptions): Promise<OauthRedirect> =>
      this.#caller.call<OauthRedirect>("POST", "/oauth/login/reject", { body, options, once: true }),
    /**
     * Returns the client that asks for access, and the accounts and roles that the caller can grant.
     *
     * Role: signed in. Users only.
     */
    getConsentRequest: (
      query?: {
        /** The consent_challenge parameter of the redirect. */ challenge?: string;
      },
      options?: CallOptions,
    ): Promise<OauthConsentRequestView> =>
      this.#caller.call<OauthConsentRequestView>("GET", "/oauth/consent-request", { query, options }),
    /**
     * Grants the client access to one account. The role cannot be higher than the caller's own.
     *
     * Role: signed in. Users only.
     */
    completeConsent: (body: CompleteConsentRequest, options?: CallOptions): Promise<OauthRedirect> =>
      this.#caller.call<OauthRedirect>("POST", "/oauth/consent/complete", { body, options }),
    /**
     * Denies the client access. The client receives access_denied at redirectTo.
     *
     * Role: none.
     */
    rejectConsent: (body: RejectConsentRequest, options?: CallOptions): Promise<OauthRedirect> =>
      this.#caller.call<OauthRedirect>("POST", "/oauth/consent/reject", { body, options, once: true }),
    /**
     * Returns the client that shows this code, where it asks from, and the accounts and roles that the caller can grant. A code that is unknown, answered or expired gets 422 unknown_code. After ten such codes within 15 minutes, the caller gets 429.
     *
     * Role: signed in. Users only.
     */
    getDeviceRequest: (
      query?: {
        /** The code that the device shows, such as WDJB-MJHT. Case, spaces and hyphens do not matter. */
        userCode?: string;
      },
      options?: CallOptions,
    ): Promise<OauthDeviceRequestView> =>
      this.#caller.call<OauthDeviceRequestView>("GET", "/oauth/device-request", { query, options }),
    /**
     * Grants the client on the device access to one account. The role cannot be higher than the caller's own. The device gets its tokens when it next asks for them.
     *
     * Role: signed in. Users only.
     */
    completeDevice: (body: CompleteDeviceRequest, options?: CallOptions): Promise<void> =>
      this.#caller.call<void>("POST", "/oauth/device/complete", { body, options }),
    /**
     * Denies the client on the device access. It receives access_denied when it next asks for tokens.
     *
     * Role: signed in. Users only.
     */
    rejectDevice: (body: RejectDeviceRequest, options?: CallOptions): Promise<void> =>
      this.#caller.call<void>("POST", "/oauth/device/reject", { body, options }),
  };

  readonly projects = {
    /**
     * Creates a project.
     *
     * Role: editor.
     */
    create: (at: AccountAddress, body: CreateProjectRequest, options?: CallOptions): Promise<Project> =>
      this.#caller.call<Project>("POST", `${pathTo(at, 1)}/projects`, { body, options }),
    /**
     * Lists the projects of an account, newest first.
     *
     * Role: reader.
     */
    list: (
      at: AccountAddress,
      query?: {
        /** The number of entries per page. Defaults to 20. */ limit?: number;
      },
      options?: CallOptions,
    ): Pages<ProjectsPage> =>
      new Pages<ProjectsPage>((cursor) =>
        this.#caller.call("GET", `${pathTo(at, 1)}/projects`, { query: { ...query, cursor }, options }),
      ),
    /**
     * Returns a project.
     *
     * Role: reader.
     */
    get: (at: ProjectAddress, options?: CallOptions): Promise<Project> =>
      this.#caller.call<Project>("GET", `${pathTo(at, 2)}`, { options }),
    /**
     * Renames a project.
     *
     * Role: editor.
     */
    update: (at: ProjectAddress, body: UpdateProjectRequest, options?: CallOptions): Promise<Project> =>
      this.#caller.call<Project>("PATCH", `${pathTo(at, 2)}`, { body, options }),
    /**
     * Deletes a project and everything in it. `confirmImpact` is required if the project has live services.
     *
     * Role: editor.
     */
    delete: (at: ProjectAddress, body?: DeleteProjectRequest, options?: CallOptions): Promise<void> =>
      this.#caller.call<void>("DELETE", `${pathTo(at, 2)}`, { body, options, deletes: true }),
  };

  readonly environments = {
    /**
     * Creates an environment in a project.
     *
     * Role: editor.
     */
    create: (
      at: ProjectAddress,
      body: CreateEnvironmentRequest,
      options?: CallOptions,
    ): Promise<Environment> =>
      this.#caller.call<Environment>("POST", `${pathTo(at, 2)}/environments`, { body, options }),
    /**
     * Lists the environments of a project, newest first.
     *
     * Role: reader.
     */
    list: (
      at: ProjectAddress,
      query?: {
        /** The number of entries per page. Defaults to 20. */ limit?: number;
      },
      options?: CallOptions,
    ): Pages<EnvironmentsPage> =>
      new Pages<EnvironmentsPage>((cursor) =>
        this.#caller.call("GET", `${pathTo(at, 2)}/environments`, { query: { ...query, cursor }, options }),
      ),
    /**
     * Returns an environment.
     *
     * Role: reader.
     */
    get: (at: EnvironmentAddress, options?: CallOptions): Promise<Environment> =>
      this.#caller.call<Environment>("GET", `${pathTo(at, 3)}`, { options }),
    /**
     * Renames an environment. The addresses of its web services change within seconds.
     *
     * Role: editor.
     */
    update: (
      at: EnvironmentAddress,
      body: UpdateEnvironmentRequest,
      options?: CallOptions,
    ): Promise<Environment> => this.#caller.call<Environment>("PATCH", `${pathTo(at, 3)}`, { body, options }),
    /**
     * Deletes an environment and everything in it. `confirmImpact` is required if the environment has live services.
     *
     * Role: editor.
     */
    delete: (at: EnvironmentAddress, body?: DeleteEnvironmentRequest, options?: CallOptions): Promise<void> =>
      this.#caller.call<void>("DELETE", `${pathTo(at, 3)}`, { body, options, deletes: true }),
    /**
     * Applies everything that is staged in an environment: provisions its addons and deploys its services.
     *
     * Role: editor.
     */
    apply: (at: EnvironmentAddress, options?: CallOptions): Promise<ApplyResult> =>
      this.#caller.call<ApplyResult>("POST", `${pathTo(at, 3)}/apply`, { options }),
    /**
     * Streams what an environment shows of its services and addons as a set that the client keeps: `begin`, then `set` and `unset` for each of them that changed, then `commit`. Clients apply a frame at its `commit`, whose id resumes the stream. An id that is too old, or not of this environment, begins a full set. A `commit` alone says that nothing changed.
     *
     * Role: reader.
     */
    followEvents: (
      at: EnvironmentAddress,
      options?: StreamOptions,
    ): AsyncGenerator<
      | StreamEvent<"begin", StreamBegin>
      | StreamEvent<"set", ServiceState>
      | StreamEvent<"unset", RemovedService>
      | StreamEvent<"commit", StreamCommit>,
      void
    > =>
      this.#caller.follow<
        | StreamEvent<"begin", StreamBegin>
        | StreamEvent<"set", ServiceState>
        | StreamEvent<"unset", RemovedService>
        | StreamEvent<"commit", StreamCommit>
      >(`${pathTo(at, 3)}/events`, { options }),
  };

  readonly services = {
    /**
     * Creates a service. An addon (postgres or redis) is provisioned immediately. A web, worker or cron service waits for its first deployment.
     *
     * Role: editor.
     */
    create: (at: EnvironmentAddress, body: CreateServiceRequest, options?: CallOptions): Promise<Service> =>
      this.#caller.call<Service>("POST", `${pathTo(at, 3)}/services`, { body, options }),
    /**
     * Lists the services of an environment, newest first.
     *
     * Role: reader.
     */
    list: (
      at: EnvironmentAddress,
      query?: {
        /** The number of entries per page. Defaults to 20. */ limit?: number;
      },
      options?: CallOptions,
    ): Pages<ServicesPage> =>
      new Pages<ServicesPage>((cursor) =>
        this.#caller.call("GET", `${pathTo(at, 3)}/services`, { query: { ...query, cursor }, options }),
      ),
    /**
     * Returns a service.
     *
     * Role: reader.
     */
    get: (at: ServiceAddress, options?: CallOptions): Promise<Service> =>
      this.#caller.call<Service>("GET", `${pathTo(at, 4)}`, { options }),
    /**
     * Changes the source, the configuration or the name of a service. Omitted fields of `config` keep their values, and `env` is merged by name. Changes of the replicas and the size take effect immediately. All other configuration changes take effect with the next deployment; until then `pendingChanges` is true. A new `name` renames the service: it moves to the path with that name immediately, and the old path stops working. Its address changes within seconds. Addons cannot be renamed.
     *
     * Role: editor.
     */
    update: (at: ServiceAddress, body?: UpdateServiceRequest, options?: CallOptions): Promise<Service> =>
      this.#caller.call<Service>("PATCH", `${pathTo(at, 4)}`, { body, options }),
    /**
     * Deletes a service with its history, variables and data. `confirmImpact` is required if the service is live.
     *
     * Role: editor.
     */
    delete: (at: ServiceAddress, body?: DeleteServiceRequest, options?: CallOptions): Promise<void> =>
      this.#caller.call<void>("DELETE", `${pathTo(at, 4)}`, { body, options, deletes: true }),
    /**
     * Restarts the live release. New replicas with the same image, configuration and variables replace the running ones. A restart creates no new version. A second restart during a restart starts over.
     *
     * Role: editor.
     */
    restart: (at: ServiceAddress, options?: CallOptions): Promise<Service> =>
      this.#caller.call<Service>("POST", `${pathTo(at, 4)}/restart`, { options }),
    /**
     * Rotates the password of an addon. The addon publishes its keys again, and connected services pick them up automatically. `credentialsRotatedAt` changes when the rotation is complete. A request during a rotation does not start a second one.
     *
     * Role: editor.
     */
    rotateCredentials: (at: ServiceAddress, options?: CallOptions): Promise<Service> =>
      this.#caller.call<Service>("POST", `${pathTo(at, 4)}/rotate-credentials`, { options }),
    /**
     * Opens a way to an addon from outside its environment. A WebSocket at the answered path, at the origin of the API, is a connection to the server of the addon: its binary messages are the bytes of the connection, in both directions. Each connection has a WebSocket of its own, and logs in with a password that is worth nothing elsewhere.
     *
     * Role: editor.
     */
    openTunnel: (at: ServiceAddress, body?: OpenTunnelRequest, options?: CallOptions): Promise<Tunnel> =>
      this.#caller.call<Tunnel>("POST", `${pathTo(at, 4)}/tunnel`, { body, options }),
    /**
     * Gives an addon the name of another one of the same type and environment, which gets its name in exchange. Variables that are connected to that name lead to this addon from then on, and running services receive its keys. Done again, it is undone.
     *
     * Role: editor.
     */
    promote: (at: ServiceAddress, body: PromoteServiceRequest, options?: CallOptions): Promise<Service> =>
      this.#caller.call<Service>("POST", `${pathTo(at, 4)}/promote`, { body, options }),
    /**
     * Returns what the server of an addon does now, and what has been counted: connections, size, cache, the largest tables, running and slow statements. It is read from the server at that moment, as the addon's own role. Texts of statements may contain data.
     *
     * Role: editor.
     */
    statistics: (at: ServiceAddress, options?: CallOptions): Promise<Statistics> =>
      this.#caller.call<Statistics>("GET", `${pathTo(at, 4)}/statistics`, { options }),
  };

  readonly backups = {
    /**
     * Begins a backup of an addon. It is complete when its status is `succeeded`. With `at`, it has the data of that moment, where the addon's capabilities say that it can. With `upload`, makes a backup of a dump that was uploaded instead, which is complete at once.
     *
     * Role: editor.
     */
    create: (at: ServiceAddress, body?: CreateBackupRequest, options?: CallOptions): Promise<Backup> =>
      this.#caller.call<Backup>("POST", `${pathTo(at, 4)}/backups`, { body, options }),
    /**
     * Returns a URL to which a dump can be uploaded for an hour: what `pg_dump --format=custom` wrote, or an RDB file. `POST S/backups` with the `upload` of the answer then makes a backup of it.
     *
     * Role: editor.
     */
    createUpload: (
      at: ServiceAddress,
      body?: CreateBackupUploadRequest,
      options?: CallOptions,
    ): Promise<BackupUpload> =>
      this.#caller.call<BackupUpload>("POST", `${pathTo(at, 4)}/backups/uploads`, { body, options }),
    /**
     * Lists the backups of an addon, newest first.
     *
     * Role: reader.
     */
    list: (
      at: ServiceAddress,
      query?: {
        /** The number of entries per page. Defaults to 20. */ limit?: number;
      },
      options?: CallOptions,
    ): Pages<BackupsPage> =>
      new Pages<BackupsPage>((cursor) =>
        this.#caller.call("GET", `${pathTo(at, 4)}/backups`, { query: { ...query, cursor }, options }),
      ),
    /**
     * Returns a backup.
     *
     * Role: reader.
     */
    get: (at: ServiceAddress, backupId: string, options?: CallOptions): Promise<Backup> =>
      this.#caller.call<Backup>("GET", `${pathTo(at, 4)}/backups/${part(backupId)}`, { options }),
    /**
     * Returns a URL from which anyone can download a backup until it expires, after 5 minutes: as `pg_dump --format=custom` writes it, or as an RDB file.
     *
     * Role: editor.
     */
    download: (at: ServiceAddress, backupId: string, options?: CallOptions): Promise<BackupDownload> =>
      this.#caller.call<BackupDownload>("GET", `${pathTo(at, 4)}/backups/${part(backupId)}/download`, {
        options,
      }),
    /**
     * Deletes a backup that is neither being made nor being restored.
     *
     * Role: editor.
     */
    delete: (at: ServiceAddress, backupId: string, options?: CallOptions): Promise<void> =>
      this.#caller.call<void>("DELETE", `${pathTo(at, 4)}/backups/${part(backupId)}`, {
        options,
        deletes: true,
      }),
    /**
     * Replaces all data of an addon by that of a backup: its own, or that of another addon of this type in the account, such as production's. With `at`, a backup of its own data of that moment is made first. `confirmImpact` is required: what the addon has is lost. If the restore fails, the addon keeps its data. `backups.restore` of the service says how far it is.
     *
     * Role: editor.
     */
    restore: (at: ServiceAddress, body?: RestoreBackupRequest, options?: CallOptions): Promise<Service> =>
      this.#caller.call<Service>("POST", `${pathTo(at, 4)}/restore`, { body, options }),
  };

  readonly keptBackups = {
    /**
     * Lists the backups that are kept of deleted addons, newest first: of each the newest one that succeeded, for some days. `POST S/restore` restores it, and `from.backup` of a new addon brings it back.
     *
     * Role: reader.
     */
    list: (
      at: AccountAddress,
      query?: {
        /** The number of entries per page. Defaults to 20. */ limit?: number;
      },
      options?: CallOptions,
    ): Pages<KeptBackupsPage> =>
      new Pages<KeptBackupsPage>((cursor) =>
        this.#caller.call("GET", `${pathTo(at, 1)}/backups`, { query: { ...query, cursor }, options }),
      ),
    /**
     * Returns a backup that is kept of a deleted addon.
     *
     * Role: reader.
     */
    get: (at: AccountAddress, backupId: string, options?: CallOptions): Promise<KeptBackup> =>
      this.#caller.call<KeptBackup>("GET", `${pathTo(at, 1)}/backups/${part(backupId)}`, { options }),
    /**
     * Returns a URL from which anyone can download a backup of a deleted addon until it expires, after 5 minutes.
     *
     * Role: editor.
     */
    download: (at: AccountAddress, backupId: string, options?: CallOptions): Promise<BackupDownload> =>
      this.#caller.call<BackupDownload>("GET", `${pathTo(at, 1)}/backups/${part(backupId)}/download`, {
        options,
      }),
    /**
     * Deletes a backup of a deleted addon at once, unless it is being restored.
     *
     * Role: owner.
     */
    delete: (at: AccountAddress, backupId: string, options?: CallOptions): Promise<void> =>
      this.#caller.call<void>("DELETE", `${pathTo(at, 1)}/backups/${part(backupId)}`, {
        options,
        deletes: true,
      }),
  };

  readonly domains = {
    /**
     * Adds a host name to a web service. It is served once a DNS record proves that the account may use it; `records` lists the records to create. Other accounts may add the same host name: the first to prove it has it.
     *
     * Role: editor.
     */
    create: (at: ServiceAddress, body: CreateDomainRequest, options?: CallOptions): Promise<Domain> =>
      this.#caller.call<Domain>("POST", `${pathTo(at, 4)}/domains`, { body, options }),
    /**
     * Lists the domains of a service, newest first.
     *
     * Role: reader.
     */
    list: (
      at: ServiceAddress,
      query?: {
        /** The number of entries per page. Defaults to 20. */ limit?: number;
      },
      options?: CallOptions,
    ): Pages<DomainsPage> =>
      new Pages<DomainsPage>((cursor) =>
        this.#caller.call("GET", `${pathTo(at, 4)}/domains`, { query: { ...query, cursor }, options }),
      ),
    /**
     * Returns a domain.
     *
     * Role: reader.
     */
    get: (at: ServiceAddress, domainId: string, options?: CallOptions): Promise<Domain> =>
      this.#caller.call<Domain>("GET", `${pathTo(at, 4)}/domains/${part(domainId)}`, { options }),
    /**
     * Removes a domain. The service stops answering at the host name within seconds, and others can then prove it.
     *
     * Role: editor.
     */
    delete: (at: ServiceAddress, domainId: string, options?: CallOptions): Promise<void> =>
      this.#caller.call<void>("DELETE", `${pathTo(at, 4)}/domains/${part(domainId)}`, {
        options,
        deletes: true,
      }),
    /**
     * Looks up the domain's records again within seconds, instead of at `nextCheckAt`.
     *
     * Role: editor.
     */
    check: (at: ServiceAddress, domainId: string, options?: CallOptions): Promise<Domain> =>
      this.#caller.call<Domain>("POST", `${pathTo(at, 4)}/domains/${part(domainId)}/check`, { options }),
  };

  readonly registries = {
    /**
     * Stores the login for a registry. Images of this registry are pulled with it, in all environments of the account. No answer contains the token. An account has at most 20 registries.
     *
     * Role: owner.
     */
    create: (at: AccountAddress, body: CreateRegistryRequest, options?: CallOptions): Promise<Registry> =>
      this.#caller.call<Registry>("POST", `${pathTo(at, 1)}/registries`, { body, options }),
    /**
     * Lists the account's registries, newest first, without their tokens.
     *
     * Role: owner.
     */
    list: (
      at: AccountAddress,
      query?: {
        /** The number of entries per page. Defaults to 20. */ limit?: number;
      },
      options?: CallOptions,
    ): Pages<RegistriesPage> =>
      new Pages<RegistriesPage>((cursor) =>
        this.#caller.call("GET", `${pathTo(at, 1)}/registries`, { query: { ...query, cursor }, options }),
      ),
    /**
     * Returns a registry without its token.
     *
     * Role: owner.
     */
    get: (at: AccountAddress, registryId: string, options?: CallOptions): Promise<Registry> =>
      this.#caller.call<Registry>("GET", `${pathTo(at, 1)}/registries/${part(registryId)}`, { options }),
    /**
     * Replaces the token of a registry, and the user if one is sent.
     *
     * Role: owner.
     */
    update: (
      at: AccountAddress,
      registryId: string,
      body: UpdateRegistryRequest,
      options?: CallOptions,
    ): Promise<Registry> =>
      this.#caller.call<Registry>("PATCH", `${pathTo(at, 1)}/registries/${part(registryId)}`, {
        body,
        options,
      }),
    /**
     * Deletes the login for a registry. Within a minute, no node can pull with it. What runs keeps running.
     *
     * Role: owner.
     */
    delete: (at: AccountAddress, registryId: string, options?: CallOptions): Promise<void> =>
      this.#caller.call<void>("DELETE", `${pathTo(at, 1)}/registries/${part(registryId)}`, {
        options,
        deletes: true,
      }),
  };

  readonly runs = {
    /**
     * Starts a command with the artifact of the service's live release, its size and the variables that it has then. The service's replicas are not involved.
     *
     * Role: editor.
     */
    create: (at: ServiceAddress, body?: CreateRunRequest, options?: CallOptions): Promise<Run> =>
      this.#caller.call<Run>("POST", `${pathTo(at, 4)}/runs`, { body, options }),
    /**
     * Lists the newest runs of a service, newest first; at most 100 of those that have ended are kept.
     *
     * Role: reader.
     */
    list: (
      at: ServiceAddress,
      query?: {
        /** Returns only runs with this status. */
        status?:
          | "queued"
          | "running"
          | "succeeded"
          | "failed"
          | "canceled"
          | "timed_out"
          | "lost" /** The number of entries per page. Defaults to 20. */;
        limit?: number;
      },
      options?: CallOptions,
    ): Pages<RunsPage> =>
      new Pages<RunsPage>((cursor) =>
        this.#caller.call("GET", `${pathTo(at, 4)}/runs`, { query: { ...query, cursor }, options }),
      ),
    /**
     * Returns a run.
     *
     * Role: reader.
     */
    get: (at: ServiceAddress, runId: string, options?: CallOptions): Promise<Run> =>
      this.#caller.call<Run>("GET", `${pathTo(at, 4)}/runs/${part(runId)}`, { options }),
    /**
     * Cancels a run that has not ended. Its processes are ended; what they have done stays.
     *
     * Role: editor.
     */
    cancel: (at: ServiceAddress, runId: string, options?: CallOptions): Promise<Run> =>
      this.#caller.call<Run>("POST", `${pathTo(at, 4)}/runs/${part(runId)}/cancel`, { options }),
    /**
     * Returns the output of a run: what it wrote so far, and all that is kept of it after it has ended.
     *
     * As `text/event-stream`: Streams the output of a run. What it wrote so far comes first, followed by each new piece within seconds, and by `end` when the run is over. Resumes after Last-Event-ID.
     *
     * Role: reader.
     */
    logs: (at: ServiceAddress, runId: string, options?: CallOptions): Promise<RunLogsResponse> =>
      this.#caller.call<RunLogsResponse>("GET", `${pathTo(at, 4)}/runs/${part(runId)}/logs`, { options }),
    /**
     * Returns the output of a run: what it wrote so far, and all that is kept of it after it has ended.
     *
     * As `text/event-stream`: Streams the output of a run. What it wrote so far comes first, followed by each new piece within seconds, and by `end` when the run is over. Resumes after Last-Event-ID.
     *
     * Role: reader.
     */
    followLogs: (
      at: ServiceAddress,
      runId: string,
      options?: StreamOptions,
    ): AsyncGenerator<StreamEvent<"piece", BuildLogPiece> | StreamEvent<"end", RunEnd>, void> =>
      this.#caller.follow<StreamEvent<"piece", BuildLogPiece> | StreamEvent<"end", RunEnd>>(
        `${pathTo(at, 4)}/runs/${part(runId)}/logs`,
        { options },
      ),
  };

  readonly variables = {
    /**
     * Creates a variable from exactly one of value, connection and aliasTarget.
     *
     * Role: editor.
     */
    create: (
      at: ProjectAddress | EnvironmentAddress | ServiceAddress,
      body: CreateVariableRequest,
      options?: CallOptions,
    ): Promise<WrittenVariable> =>
      this.#caller.call<WrittenVariable>("POST", `${pathTo(at, 2, 4)}/variables`, { body, options }),
    /**
     * Lists the variables of a scope, newest first. The values of sensitive variables are withheld.
     *
     * Role: reader.
     */
    list: (
      at: ProjectAddress | EnvironmentAddress | ServiceAddress,
      query?: {
        /** The number of entries per page. Defaults to 20. */ limit?: number;
      },
      options?: CallOptions,
    ): Pages<VariablesPage> =>
      new Pages<VariablesPage>((cursor) =>
        this.#caller.call("GET", `${pathTo(at, 2, 4)}/variables`, { query: { ...query, cursor }, options }),
      ),
    /**
     * Returns a variable of a scope by name.
     *
     * Role: reader.
     */
    get: (
      at: ProjectAddress | EnvironmentAddress | ServiceAddress,
      variableName: string,
      options?: CallOptions,
    ): Promise<Variable> =>
      this.#caller.call<Variable>("GET", `${pathTo(at, 2, 4)}/variables/${part(variableName)}`, { options }),
    /**
     * Changes a variable: replaces the value of a literal, retargets a connection or an alias, or changes whether a literal is sensitive. The kind of a variable never changes.
     *
     * Role: editor.
     */
    update: (
      at: ProjectAddress | EnvironmentAddress | ServiceAddress,
      variableName: string,
      body?: UpdateVariableRequest,
      options?: CallOptions,
    ): Promise<WrittenVariable> =>
      this.#caller.call<WrittenVariable>("PATCH", `${pathTo(at, 2, 4)}/variables/${part(variableName)}`, {
        body,
        options,
      }),
    /**
     * Deletes a variable. At project and environment scope, `confirmImpact` is required.
     *
     * Role: editor.
     */
    delete: (
      at: ProjectAddress | EnvironmentAddress | ServiceAddress,
      variableName: string,
      body?: DeleteVariableRequest,
      options?: CallOptions,
    ): Promise<void> =>
      this.#caller.call<void>("DELETE", `${pathTo(at, 2, 4)}/variables/${part(variableName)}`, {
        body,
        options,
        deletes: true,
      }),
    /**
     * Creates or overwrites every entry of `set` and deletes every name in `unset`. The batch is atomic: it has one revision, one audit record and one event.
     *
     * Role: editor.
     */
    batch: (
      at: ProjectAddress | EnvironmentAddress | ServiceAddress,
      body?: BatchVariablesRequest,
      options?: CallOptions,
    ): Promise<BatchVariablesResult> =>
      this.#caller.call<BatchVariablesResult>("POST", `${pathTo(at, 2, 4)}/variables/batch`, {
        body,
        options,
      }),
    /**
     * Lists the services that resolve the variable at this scope, except managed addons and services that shadow the name. Deleting the variable affects the same services.
     *
     * Role: reader.
     */
    impact: (
      at: ProjectAddress | EnvironmentAddress,
      variableName: string,
      options?: CallOptions,
    ): Promise<VariableImpact> =>
      this.#caller.call<VariableImpact>("GET", `${pathTo(at, 2, 3)}/variables/${part(variableName)}/impact`, {
        options,
      }),
    /**
     * Returns the plaintext of a variable. The audit record variable.reveal is committed before the answer is sent.
     *
     * Role: reader.
     */
    reveal: (
      at: ProjectAddress | EnvironmentAddress | ServiceAddress,
      variableName: string,
      options?: CallOptions,
    ): Promise<RevealedVariable> =>
      this.#caller.call<RevealedVariable>(
        "POST",
        `${pathTo(at, 2, 4)}/variables/${part(variableName)}/reveal`,
        { options },
      ),
    /**
     * Returns the effective variables of a service. The set is the union of the service's three scopes, and the nearest scope wins. Connections and aliases are resolved. Entries of `config.env` are included if no variable has the same name. Sensitive values are withheld.
     *
     * As `text/event-stream`: Streams the effective variables of a service as a set that the client keeps: `begin`, then `set` and `unset` for each name that changed, then `commit`. Clients apply a frame at its `commit`, whose id resumes the stream. An id that is too old, or not of this service, begins a full set. A `set` whose value is withheld says that the value may have changed. A `commit` alone says that nothing changed.
     *
     * Role: reader.
     */
    resolve: (at: ServiceAddress, options?: CallOptions): Promise<ResolvedVariables> =>
      this.#caller.call<ResolvedVariables>("GET", `${pathTo(at, 4)}/resolved-variables`, { options }),
    /**
     * Returns the effective variables of a service. The set is the union of the service's three scopes, and the nearest scope wins. Connections and aliases are resolved. Entries of `config.env` are included if no variable has the same name. Sensitive values are withheld.
     *
     * As `text/event-stream`: Streams the effective variables of a service as a set that the client keeps: `begin`, then `set` and `unset` for each name that changed, then `commit`. Clients apply a frame at its `commit`, whose id resumes the stream. An id that is too old, or not of this service, begins a full set. A `set` whose value is withheld says that the value may have changed. A `commit` alone says that nothing changed.
     *
     * Role: reader.
     */
    followEvents: (
      at: ServiceAddress,
      options?: StreamOptions,
    ): AsyncGenerator<
      | StreamEvent<"begin", StreamBegin>
      | StreamEvent<"set", ResolvedName>
      | StreamEvent<"unset", UnsetName>
      | StreamEvent<"commit", StreamCommit>,
      void
    > =>
      this.#caller.follow<
        | StreamEvent<"begin", StreamBegin>
        | StreamEvent<"set", ResolvedName>
        | StreamEvent<"unset", UnsetName>
        | StreamEvent<"commit", StreamCommit>
      >(`${pathTo(at, 4)}/resolved-variables`, { options }),
    /**
     * Returns the effective variables of a service with all values, also the sensitive ones. An audit record variable.reveal of each sensitive variable is committed before the answer is sent. A machine needs the role editor.
     *
     * Role: reader. Machines: editor.
     */
    revealResolved: (at: ServiceAddress, options?: CallOptions): Promise<RevealedVariables> =>
      this.#caller.call<RevealedVariables>("POST", `${pathTo(at, 4)}/resolved-variables/reveal`, { options }),
  };

  readonly deployments = {
    /**
     * Deploys an image. This is the given image, otherwise the one in the service's configuration, otherwise the live one. If no image is given and the service has a git source, the newest commit of its branch is built. For a staged service the answer is a staged acknowledgement; the service is deployed when its environment is applied. With `dryRun` nothing changes, and the answer describes what would change.
     *
     * Role: editor.
     */
    deploy: ((at: ServiceAddress, body?: DeployRequest, options?: CallOptions) =>
      this.#caller.call<DryRun | Deployment | StagedAcknowledgement>("POST", `${pathTo(at, 4)}/deploy`, {
        body,
        options,
      })) as {
      (at: ServiceAddress, body: DeployRequest & { dryRun: true }, options?: CallOptions): Promise<DryRun>;
      (
        at: ServiceAddress,
        body?: DeployRequest & { dryRun?: false },
        options?: CallOptions,
      ): Promise<Deployment | StagedAcknowledgement>;
    },
    /**
     * Creates a short-lived URL for a single upload of the source, as a gzipped tar archive.
     *
     * Role: editor.
     */
    createUpload: (
      at: ServiceAddress,
      body?: CreateUploadRequest,
      options?: CallOptions,
    ): Promise<UploadTarget> =>
      this.#caller.call<UploadTarget>("POST", `${pathTo(at, 4)}/uploads`, { body, options }),
    /**
     * Builds and deploys an uploaded archive. For a staged service the answer is a staged acknowledgement; the service is deployed when its environment is applied. With `dryRun` nothing changes, and the answer describes what would change.
     *
     * Role: editor.
     */
    deployFromArchive: ((at: ServiceAddress, body: DeployFromArchiveRequest, options?: CallOptions) =>
      this.#caller.call<DryRun | Deployment | StagedAcknowledgement>(
        "POST",
        `${pathTo(at, 4)}/deploy-from-archive`,
        { body, options },
      )) as {
      (
        at: ServiceAddress,
        body: DeployFromArchiveRequest & { dryRun: true },
        options?: CallOptions,
      ): Promise<DryRun>;
      (
        at: ServiceAddress,
        body: DeployFromArchiveRequest & { dryRun?: false },
        options?: CallOptions,
      ): Promise<Deployment | StagedAcknowledgement>;
    },
    /**
     * Deploys the image and the service configuration of an earlier version again. The result is a new deployment with the current variables. The version must have been live, and must be among those that the plan retains. With `dryRun` nothing changes, and the answer describes what would change.
     *
     * Role: editor.
     */
    rollback: ((at: ServiceAddress, body: RollbackRequest, options?: CallOptions) =>
      this.#caller.call<DryRun | Deployment | StagedAcknowledgement>("POST", `${pathTo(at, 4)}/rollback`, {
        body,
        options,
      })) as {
      (at: ServiceAddress, body: RollbackRequest & { dryRun: true }, options?: CallOptions): Promise<DryRun>;
      (
        at: ServiceAddress,
        body: RollbackRequest & { dryRun?: false },
        options?: CallOptions,
      ): Promise<Deployment | StagedAcknowledgement>;
    },
    /**
     * Removes what is kept between the builds of a service: its next build installs all dependencies again.
     *
     * Role: editor.
     */
    clearBuildCache: (at: ServiceAddress, options?: CallOptions): Promise<void> =>
      this.#caller.call<void>("POST", `${pathTo(at, 4)}/clear-build-cache`, { options }),
    /**
     * Cancels a deployment that has not been applied yet. Its build stops, and the deployment fails with the error code `canceled`. The live release is not affected.
     *
     * Role: editor.
     */
    cancel: (at: ServiceAddress, version: number, options?: CallOptions): Promise<Deployment> =>
      this.#caller.call<Deployment>("POST", `${pathTo(at, 4)}/deployments/${part(version)}/cancel`, {
        options,
      }),
    /**
     * Lists the deployments of a service, newest first.
     *
     * Role: reader.
     */
    list: (
      at: ServiceAddress,
      query?: {
        /** The number of entries per page. Defaults to 20. */ limit?: number;
      },
      options?: CallOptions,
    ): Pages<DeploymentsPage> =>
      new Pages<DeploymentsPage>((cursor) =>
        this.#caller.call("GET", `${pathTo(at, 4)}/deployments`, { query: { ...query, cursor }, options }),
      ),
    /**
     * Returns a deployment by its version.
     *
     * Role: reader.
     */
    get: (at: ServiceAddress, version: number, options?: CallOptions): Promise<Deployment> =>
      this.#caller.call<Deployment>("GET", `${pathTo(at, 4)}/deployments/${part(version)}`, { options }),
    /**
     * Streams the progress of a deployment: a `state` event for each state that it has entered, beginning with the first, `progress` for any other change, and `end` when the deployment is healthy, failed or superseded. Resumes after Last-Event-ID.
     *
     * Role: reader.
     */
    follow: (
      at: ServiceAddress,
      version: number,
      options?: StreamOptions,
    ): AsyncGenerator<
      StreamEvent<"state", Deployment> | StreamEvent<"progress", Deployment> | StreamEvent<"end", FollowEnd>,
      void
    > =>
      this.#caller.follow<
        StreamEvent<"state", Deployment> | StreamEvent<"progress", Deployment> | StreamEvent<"end", FollowEnd>
      >(`${pathTo(at, 4)}/deployments/${part(version)}/events`, { options }),
    /**
     * Returns the log of a build: the output so far while the build runs, and the stored log after it ends.
     *
     * As `text/event-stream`: Streams the log of a build. The stored log comes first, followed by each new piece within two seconds of being written, and by `end` when the build is over. If the build had to start over, a `restart` event comes first and the log follows from the beginning.
     *
     * Role: reader.
     */
    buildLogs: (at: ServiceAddress, version: number, options?: CallOptions): Promise<BuildLogsResponse> =>
      this.#caller.call<BuildLogsResponse>(
        "GET",
        `${pathTo(at, 4)}/deployments/${part(version)}/build-logs`,
        { options },
      ),
    /**
     * Returns the log of a build: the output so far while the build runs, and the stored log after it ends.
     *
     * As `text/event-stream`: Streams the log of a build. The stored log comes first, followed by each new piece within two seconds of being written, and by `end` when the build is over. If the build had to start over, a `restart` event comes first and the log follows from the beginning.
     *
     * Role: reader.
     */
    followBuildLogs: (
      at: ServiceAddress,
      version: number,
      options?: StreamOptions,
    ): AsyncGenerator<
      | StreamEvent<"piece", BuildLogPiece>
      | StreamEvent<"restart", BuildLogRestart>
      | StreamEvent<"end", FollowEnd>,
      void
    > =>
      this.#caller.follow<
        | StreamEvent<"piece", BuildLogPiece>
        | StreamEvent<"restart", BuildLogRestart>
        | StreamEvent<"end", FollowEnd>
      >(`${pathTo(at, 4)}/deployments/${part(version)}/build-logs`, { options }),
  };

  readonly logs = {
    /**
     * Lists the lines that the processes of a service, or the servers of an addon, have logged, newest first. An addon that shares a server with others has no log.
     *
     * As `text/event-stream`: Streams the lines that the processes of a service, or the servers of an addon, log, oldest first. The stream begins with the newest `limit` lines (200 by default), or with all lines after the one in Last-Event-ID, and continues with each new line. It continues across deployments until the client closes it.
     *
     * Role: reader.
     */
    list: (
      at: ServiceAddress,
      query?: {
        /** Returns only lines of this deployment version. */ version?: number;
        stream?: "stdout" | "stderr" /** Returns only lines from this time on. */;
        since?: string /** The number of entries per page. Defaults to 20. */;
        limit?: number;
      },
      options?: CallOptions,
    ): Pages<LogsPage> =>
      new Pages<LogsPage>((cursor) =>
        this.#caller.call("GET", `${pathTo(at, 4)}/logs`, { query: { ...query, cursor }, options }),
      ),
    /**
     * Lists the lines that the processes of a service, or the servers of an addon, have logged, newest first. An addon that shares a server with others has no log.
     *
     * As `text/event-stream`: Streams the lines that the processes of a service, or the servers of an addon, log, oldest first. The stream begins with the newest `limit` lines (200 by default), or with all lines after the one in Last-Event-ID, and continues with each new line. It continues across deployments until the client closes it.
     *
     * Role: reader.
     */
    follow: (
      at: ServiceAddress,
      query?: {
        /** Returns only lines of this deployment version. */ version?: number;
        stream?: "stdout" | "stderr" /** Returns only lines from this time on. */;
        since?: string /** The number of entries per page. Defaults to 20. */;
        limit?: number;
      },
      options?: StreamOptions,
    ): AsyncGenerator<StreamEvent<"line", LogLine>, void> =>
      this.#caller.follow<StreamEvent<"line", LogLine>>(`${pathTo(at, 4)}/logs`, { query, options }),
  };

  readonly metrics = {
    /**
     * Returns series of what a service used: CPU, memory, replicas, restarts and network; for a web service also its requests, by status class, with quantiles of their latency, and for an addon its storage and connections. They are kept for 24 hours. What this installation cannot measure is left out, and named in `unavailable`.
     *
     * Role: reader.
     */
    get: (
      at: ServiceAddress,
      query?: {
        /** The beginning. Defaults to one hour before `to`. A time of more than 24 hours ago stands for 24 hours ago. */
        from?: string /** The end. Defaults to now, and so does a time in the future. */;
        to?: string /** The number of seconds that each point covers. Defaults to 60. */;
        step?: number;
      },
      options?: CallOptions,
    ): Promise<Metrics> => this.#caller.call<Metrics>("GET", `${pathTo(at, 4)}/metrics`, { query, options }),
  };

  readonly notifications = {
    /**
     * Lists the caller's notifications, newest first. With `unread=true`, lists only unread ones.
     *
     * Role: signed in. Users only.
     */
    list: (
      query?: { unread?: boolean /** The number of entries per page. Defaults to 20. */; limit?: number },
      options?: CallOptions,
    ): Pages<NotificationsPage> =>
      new Pages<NotificationsPage>((cursor) =>
        this.#caller.call("GET", "/notifications", { query: { ...query, cursor }, options }),
      ),
    /**
     * Returns the exact number of the caller's unread notifications.
     *
     * Role: signed in. Users only.
     */
    countUnread: (options?: CallOptions): Promise<UnreadCount> =>
      this.#caller.call<UnreadCount>("GET", "/notifications/unread-count", { options }),
    /**
     * Marks a notification as read. A notification that is already read keeps its `readAt`.
     *
     * Role: signed in. Users only.
     */
    markRead: (notificationId: string, options?: CallOptions): Promise<Notification> =>
      this.#caller.call<Notification>("POST", `/notifications/${part(notificationId)}/read`, { options }),
    /**
     * Marks as read all notifications that exist at the time of the request. Returns the number that are unread afterwards.
     *
     * Role: signed in. Users only.
     */
    markAllRead: (options?: CallOptions): Promise<UnreadCount> =>
      this.#caller.call<UnreadCount>("POST", "/notifications/read-all", { options }),
    /**
     * Returns why the caller got a notification, and what happened to its mail.
     *
     * Role: signed in. Users only.
     */
    decisions: (notificationId: string, options?: CallOptions): Promise<NotificationDecisions> =>
      this.#caller.call<NotificationDecisions>("GET", `/notifications/${part(notificationId)}/decisions`, {
        options,
      }),
    /**
     * Streams the caller's feed: a `notification` event for each new notification, and `unread` with the count when the count changes. Resumes after Last-Event-ID: notifications that arrived in the meantime come first, and some may come twice.
     *
     * Role: signed in. Users only.
     */
    follow: (
      options?: StreamOptions,
    ): AsyncGenerator<
      StreamEvent<"notification", NotificationArrived> | StreamEvent<"unread", UnreadCount>,
      void
    > =>
      this.#caller.follow<
        StreamEvent<"notification", NotificationArrived> | StreamEvent<"unread", UnreadCount>
      >("/notifications/stream", { options }),
    /**
     * Lists how the caller is notified of each kind, in the order of the catalogue.
     *
     * Role: signed in. Users only.
     */
    listPreferences: (options?: CallOptions): Promise<NotificationPref[]> =>
      this.#caller.call<NotificationPref[]>("GET", "/me/notification-prefs", { options }),
    /**
     * Sets how the caller is notified of a kind. Notifications of a kind with `forceEmail` are mailed immediately whatever the caller chooses; for these kinds the choice applies only to the feed.
     *
     * Role: signed in. Users only.
     */
    setPreference: (body: SetNotificationPrefRequest, options?: CallOptions): Promise<NotificationPref> =>
      this.#caller.call<NotificationPref>("PUT", "/me/notification-prefs", { body, options }),
  };

  readonly webhooks = {
    /**
     * Creates a webhook. Only this answer and that of a rotation contain the secret. An account has at most 10 webhooks.
     *
     * Role: owner.
     */
    create: (at: AccountAddress, body: CreateWebhookRequest, options?: CallOptions): Promise<Webhook> =>
      this.#caller.call<Webhook>("POST", `${pathTo(at, 1)}/webhooks`, { body, options }),
    /**
     * Lists the account's webhooks, newest first, without their secrets.
     *
     * Role: owner.
     */
    list: (
      at: AccountAddress,
      query?: {
        /** The number of entries per page. Defaults to 20. */ limit?: number;
      },
      options?: CallOptions,
    ): Pages<WebhooksPage> =>
      new Pages<WebhooksPage>((cursor) =>
        this.#caller.call("GET", `${pathTo(at, 1)}/webhooks`, { query: { ...query, cursor }, options }),
      ),
    /**
     * Returns a webhook without its secret.
     *
     * Role: owner.
     */
    get: (at: AccountAddress, webhookId: string, options?: CallOptions): Promise<Webhook> =>
      this.#caller.call<Webhook>("GET", `${pathTo(at, 1)}/webhooks/${part(webhookId)}`, { options }),
    /**
     * Changes a webhook. Omitted fields keep their values. Disabling it gives up what waits to be sent; enabling it clears `disabledReason`.
     *
     * Role: owner.
     */
    update: (
      at: AccountAddress,
      webhookId: string,
      body?: UpdateWebhookRequest,
      options?: CallOptions,
    ): Promise<Webhook> =>
      this.#caller.call<Webhook>("PATCH", `${pathTo(at, 1)}/webhooks/${part(webhookId)}`, { body, options }),
    /**
     * Deletes a webhook with its deliveries.
     *
     * Role: owner.
     */
    delete: (at: AccountAddress, webhookId: string, options?: CallOptions): Promise<void> =>
      this.#caller.call<void>("DELETE", `${pathTo(at, 1)}/webhooks/${part(webhookId)}`, {
        options,
        deletes: true,
      }),
    /**
     * Replaces the secret and returns the new one. For 24 hours, the previous secret signs as well.
     *
     * Role: owner.
     */
    rotateSecret: (at: AccountAddress, webhookId: string, options?: CallOptions): Promise<Webhook> =>
      this.#caller.call<Webhook>("POST", `${pathTo(at, 1)}/webhooks/${part(webhookId)}/rotate-secret`, {
        options,
      }),
    /**
     * Sends a `webhook.test` event, once, whatever the webhook's `events` are. Its delivery shows what became of it.
     *
     * Role: owner.
     */
    test: (at: AccountAddress, webhookId: string, options?: CallOptions): Promise<WebhookDelivery> =>
      this.#caller.call<WebhookDelivery>("POST", `${pathTo(at, 1)}/webhooks/${part(webhookId)}/test`, {
        options,
      }),
    /**
     * Lists a webhook's deliveries, newest first. They are kept for 7 days.
     *
     * Role: owner.
     */
    deliveries: (
      at: AccountAddress,
      webhookId: string,
      query?: {
        /** Returns only deliveries in this state. */
        state?: "pending" | "delivered" | "failed" /** The number of entries per page. Defaults to 20. */;
        limit?: number;
      },
      options?: CallOptions,
    ): Pages<WebhookDeliveriesPage> =>
      new Pages<WebhookDeliveriesPage>((cursor) =>
        this.#caller.call("GET", `${pathTo(at, 1)}/webhooks/${part(webhookId)}/deliveries`, {
          query: { ...query, cursor },
          options,
        }),
      ),
    /**
     * Returns a delivery with its body.
     *
     * Role: owner.
     */
    getDelivery: (
      at: AccountAddress,
      webhookId: string,
      deliveryId: string,
      options?: CallOptions,
    ): Promise<WebhookDelivery> =>
      this.#caller.call<WebhookDelivery>(
        "GET",
        `${pathTo(at, 1)}/webhooks/${part(webhookId)}/deliveries/${part(deliveryId)}`,
        { options },
      ),
    /**
     * Sends a delivery again, with the same `webhook-id` and body.
     *
     * Role: owner.
     */
    replay: (
      at: AccountAddress,
      webhookId: string,
      deliveryId: string,
      options?: CallOptions,
    ): Promise<WebhookDelivery> =>
      this.#caller.call<WebhookDelivery>(
        "POST",
        `${pathTo(at, 1)}/webhooks/${part(webhookId)}/deliveries/${part(deliveryId)}/replay`,
        { options },
      ),
  };

  readonly unsubscriptions = {
    /**
     * Returns the mails that a link ends. Changes nothing.
     *
     * Role: none.
     */
    get: (token: string, options?: CallOptions): Promise<Unsubscription> =>
      this.#caller.call<Unsubscription>("GET", `/unsubscriptions/${part(token)}`, { options }),
    /**
     * Unsubscribes from the mails of a link. Kinds that came both by mail and in the app then come only in the app. Kinds that came only by mail are switched off. Repeating the request changes nothing.
     *
     * Role: none.
     */
    unsubscribe: (token: string, options?: CallOptions): Promise<Unsubscription> =>
      this.#caller.call<Unsubscription>("POST", `/unsubscriptions/${part(token)}`, { options, once: true }),
  };

  readonly subscription = {
    /**
     * Returns the payment provider's checkout page, on which an owner subscribes. The plan does not change with this answer; it changes when the provider confirms the payment. A repeated request for the same choice returns the page that is still open. A request for another choice closes the earlier page.
     *
     * Role: owner.
     */
    create: (
      at: AccountAddress,
      body: CreateSubscriptionRequest,
      options?: CallOptions,
    ): Promise<CheckoutSession> =>
      this.#caller.call<CheckoutSession>("POST", `${pathTo(at, 1)}/subscription`, { body, options }),
    /**
     * Returns the subscription as last reported by the payment provider. An account on the free plan has none.
     *
     * Role: owner.
     */
    get: (at: AccountAddress, options?: CallOptions): Promise<Subscription> =>
      this.#caller.call<Subscription>("GET", `${pathTo(at, 1)}/subscription`, { options }),
    /**
     * Returns what subscribing would charge now and at the first renewal, to the cent: plan, members, the saved promo code and the balance. Changes nothing.
     *
     * Role: owner.
     */
    previewCheckout: (
      at: AccountAddress,
      query?: {
        /** pro or team. */ tierId?: string /** Defaults to monthly. */;
        cadence?: "monthly" | "annual";
      },
      options?: CallOptions,
    ): Promise<CheckoutPreview> =>
      this.#caller.call<CheckoutPreview>("GET", `${pathTo(at, 1)}/subscription/checkout-preview`, {
        query,
        options,
      }),
    /**
     * Returns what canceling now would answer: every charge, credit and refund, to the cent, by the payment provider's clock. Changes nothing.
     *
     * Role: owner.
     */
    previewCancellation: (at: AccountAddress, options?: CallOptions): Promise<CancellationPreview> =>
      this.#caller.call<CancellationPreview>("GET", `${pathTo(at, 1)}/subscription/cancel-preview`, {
        options,
      }),
    /**
     * Returns what changing the plan or the cadence would answer now, to the cent, by the payment provider's clock. Changes nothing.
     *
     * Role: owner.
     */
    previewChange: (
      at: AccountAddress,
      query?: {
        /** pro or team. */ tierId?: string;
        cadence?: "monthly" | "annual";
      },
      options?: CallOptions,
    ): Promise<SubscriptionChange> =>
      this.#caller.call<SubscriptionChange>("GET", `${pathTo(at, 1)}/subscription/change-preview`, {
        query,
        options,
      }),
    /**
     * Changes the plan or the cadence of the subscription, or undoes a cancellation that has not ended. A larger plan begins immediately: the rest of the period is charged, less what was paid for the former plan. A smaller plan, or another cadence, begins when the paid period ends; until then, changing back to the present plan undoes it. To undo a cancellation, send only `cancelAtPeriodEnd: false`.
     *
     * Role: owner.
     */
    update: (
      at: AccountAddress,
      body?: UpdateSubscriptionRequest,
      options?: CallOptions,
    ): Promise<SubscriptionChange> =>
      this.#caller.call<SubscriptionChange>("PATCH", `${pathTo(at, 1)}/subscription`, { body, options }),
    /**
     * Cancels the subscription. A monthly subscription lapses at the end of the paid period. An annual subscription ends immediately: the time used is charged at the regular monthly price, and the rest is refunded.
     *
     * Role: owner.
     */
    cancel: (at: AccountAddress, options?: CallOptions): Promise<CancelSubscriptionResult> =>
      this.#caller.call<CancelSubscriptionResult>("DELETE", `${pathTo(at, 1)}/subscription`, { options }),
  };

  readonly usage = {
    /**
     * Returns the rated compute usage of the current period. This is the period of the subscription's compute item; without one, it is the calendar month in UTC.
     *
     * Role: owner.
     */
    get: (at: AccountAddress, options?: CallOptions): Promise<ComputeUsage> =>
      this.#caller.call<ComputeUsage>("GET", `${pathTo(at, 1)}/compute-usage`, { options }),
    /**
     * Lists the time intervals behind the amounts of a period, newest first.
     *
     * Role: owner.
     */
    lines: (
      at: AccountAddress,
      query?: {
        /** Returns only lines of this service. */
        serviceId?: string /** The number of entries per page. Defaults to 20. */;
        limit?: number /** Returns the lines of the period that contains this time. Defaults to the current period. */;
        at?: string;
      },
      options?: CallOptions,
    ): Pages<ComputeUsageLinesPage> =>
      new Pages<ComputeUsageLinesPage>((cursor) =>
        this.#caller.call("GET", `${pathTo(at, 1)}/compute-usage/lines`, {
          query: { ...query, cursor },
          options,
        }),
      ),
  };

  readonly statements = {
    /**
     * Lists the months for which there is a statement, newest first.
     *
     * Role: owner.
     */
    list: (
      at: AccountAddress,
      query?: {
        /** The number of entries per page. Defaults to 20. */ limit?: number;
      },
      options?: CallOptions,
    ): Pages<StatementsPage> =>
      new Pages<StatementsPage>((cursor) =>
        this.#caller.call("GET", `${pathTo(at, 1)}/statements`, { query: { ...query, cursor }, options }),
      ),
    /**
     * Returns the statement of a month, such as 2026-11: what compute cost in the closed periods that began in it. The lines add up exactly to what was charged. With `Accept: text/csv`, the response is a table of the lines.
     *
     * Role: owner.
     */
    get: (at: AccountAddress, month: string, options?: CallOptions): Promise<Statement> =>
      this.#caller.call<Statement>("GET", `${pathTo(at, 1)}/statements/${part(month)}`, { options }),
    /**
     * Returns the statement of a month, such as 2026-11: what compute cost in the closed periods that began in it. The lines add up exactly to what was charged. With `Accept: text/csv`, the response is a table of the lines.
     *
     * Role: owner.
     */
    csv: (at: AccountAddress, month: string, options?: CallOptions): Promise<string> =>
      this.#caller.call<string>("GET", `${pathTo(at, 1)}/statements/${part(month)}`, {
        accept: "text/csv",
        options,
      }),
  };

  readonly spendLimit = {
    /**
     * Returns the spend limit of the account, and what compute of the current period charges so far.
     *
     * Role: owner.
     */
    get: (at: AccountAddress, options?: CallOptions): Promise<SpendLimit> =>
      this.#caller.call<SpendLimit>("GET", `${pathTo(at, 1)}/spend-limit`, { options }),
    /**
     * Sets what compute of a period may charge at most; without `limitUsd`, removes the limit. At 100 %, services beyond the allowance are stopped until the period ends, or the limit is raised or removed.
     *
     * Role: owner.
     */
    set: (at: AccountAddress, body?: SetSpendLimitRequest, options?: CallOptions): Promise<SpendLimit> =>
      this.#caller.call<SpendLimit>("PUT", `${pathTo(at, 1)}/spend-limit`, { body, options }),
  };

  readonly invoices = {
    /**
     * Lists all invoices of the account, newest first, also without a subscription.
     *
     * Role: owner.
     */
    list: (
      at: AccountAddress,
      query?: {
        /** The number of entries per page. Defaults to 20. */ limit?: number;
      },
      options?: CallOptions,
    ): Pages<InvoicesPage> =>
      new Pages<InvoicesPage>((cursor) =>
        this.#caller.call("GET", `${pathTo(at, 1)}/invoices`, { query: { ...query, cursor }, options }),
      ),
  };

  readonly coupon = {
    /**
     * Redeems a promo code. If the account has a subscription, the discount applies from the next invoice on. Otherwise the code is saved for the next subscription.
     *
     * Role: owner.
     */
    redeem: (at: AccountAddress, body: RedeemCouponRequest, options?: CallOptions): Promise<void> =>
      this.#caller.call<void>("POST", `${pathTo(at, 1)}/coupon`, { body, options }),
    /**
     * Returns the promo code that is saved for the next subscription.
     *
     * Role: owner.
     */
    get: (at: AccountAddress, options?: CallOptions): Promise<PendingCoupon> =>
      this.#caller.call<PendingCoupon>("GET", `${pathTo(at, 1)}/coupon`, { options }),
    /**
     * Removes the discount from the subscription, or deletes the saved code. Does nothing if there is neither.
     *
     * Role: owner.
     */
    remove: (at: AccountAddress, options?: CallOptions): Promise<void> =>
      this.#caller.call<void>("DELETE", `${pathTo(at, 1)}/coupon`, { options, deletes: true }),
  };

  readonly billing = {
    /**
     * Returns a page of the payment provider with invoices, addresses and payment methods. The URL is a secret and works for minutes.
     *
     * Role: owner.
     */
    openPortal: (at: AccountAddress, options?: CallOptions): Promise<BillingPortal> =>
      this.#caller.call<BillingPortal>("GET", `${pathTo(at, 1)}/billing-portal`, { options }),
  };
}
