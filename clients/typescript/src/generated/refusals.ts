// Generated from gateway/openapi.json by clients/generate. Do not edit.

export type Refusals = {
  "accounts.create": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    machine_actor_forbidden: never;
    request_timeout: never;
    handle_taken: never;
    idempotency_key_reused: never;
    conflict: never;
    payload_too_large: never;
    unsupported_media_type: never;
    validation_failed:
      | "invalid_handle"
      | "unknown_field"
      | "too_long"
      | "out_of_range"
      | "invalid_type"
      | "invalid_text"
      | "required"
      | "invalid_key";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "accounts.list": {
    malformed_request: never;
    unauthenticated: never;
    request_timeout: never;
    validation_failed: "unknown_field" | "invalid_type" | "out_of_range" | "invalid_text";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "accounts.get": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    request_timeout: never;
    validation_failed: "unknown_field";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "accounts.update": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    machine_actor_forbidden: never;
    request_timeout: never;
    handle_taken: never;
    payload_too_large: never;
    unsupported_media_type: never;
    validation_failed:
      | "invalid_handle"
      | "empty_patch"
      | "unknown_field"
      | "too_long"
      | "out_of_range"
      | "invalid_type"
      | "invalid_text"
      | "required";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "accounts.delete": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    machine_actor_forbidden: never;
    request_timeout: never;
    impact_confirmation_required: never;
    subscription_active: never;
    first_account: never;
    payload_too_large: never;
    unsupported_media_type: never;
    validation_failed: "unknown_field" | "too_long" | "out_of_range" | "invalid_type";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "members.invite": {
    malformed_request: never;
    unauthenticated: never;
    quota_exceeded: never;
    forbidden: never;
    machine_actor_forbidden: never;
    request_timeout: never;
    already_member: never;
    already_invited: never;
    idempotency_key_reused: never;
    conflict: never;
    payload_too_large: never;
    unsupported_media_type: never;
    validation_failed:
      | "invalid_email"
      | "invalid_choice"
      | "unknown_field"
      | "too_long"
      | "out_of_range"
      | "invalid_type"
      | "invalid_text"
      | "invalid_key";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "members.list": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    request_timeout: never;
    validation_failed: "unknown_field" | "invalid_type" | "out_of_range" | "invalid_text";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "members.get": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    not_found: never;
    request_timeout: never;
    validation_failed: "unknown_field";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "members.update": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    machine_actor_forbidden: never;
    not_found: never;
    request_timeout: never;
    last_owner: never;
    payload_too_large: never;
    unsupported_media_type: never;
    validation_failed:
      | "unknown_field"
      | "too_long"
      | "out_of_range"
      | "invalid_type"
      | "invalid_text"
      | "invalid_choice";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "members.remove": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    machine_actor_forbidden: never;
    not_found: never;
    request_timeout: never;
    last_owner: never;
    payload_too_large: never;
    unsupported_media_type: never;
    validation_failed: "unknown_field" | "too_long" | "out_of_range";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "invitations.list": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    request_timeout: never;
    validation_failed: "unknown_field" | "invalid_type" | "out_of_range" | "invalid_text";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "invitations.get": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    not_found: never;
    request_timeout: never;
    validation_failed: "unknown_field";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "invitations.resend": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    machine_actor_forbidden: never;
    not_found: never;
    request_timeout: never;
    idempotency_key_reused: never;
    conflict: never;
    payload_too_large: never;
    unsupported_media_type: never;
    validation_failed: "unknown_field" | "too_long" | "out_of_range" | "invalid_key";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "invitations.withdraw": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    machine_actor_forbidden: never;
    not_found: never;
    request_timeout: never;
    payload_too_large: never;
    unsupported_media_type: never;
    validation_failed: "unknown_field" | "too_long" | "out_of_range";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "invitations.listMine": {
    malformed_request: never;
    unauthenticated: never;
    machine_actor_forbidden: never;
    request_timeout: never;
    validation_failed: "unknown_field" | "invalid_type" | "out_of_range" | "invalid_text";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "invitations.accept": {
    malformed_request: never;
    unauthenticated: never;
    quota_exceeded: never;
    forbidden: never;
    machine_actor_forbidden: never;
    not_found: never;
    request_timeout: never;
    idempotency_key_reused: never;
    conflict: never;
    payload_too_large: never;
    unsupported_media_type: never;
    validation_failed: "unknown_field" | "too_long" | "out_of_range" | "invalid_key";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "invitations.decline": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    machine_actor_forbidden: never;
    not_found: never;
    request_timeout: never;
    idempotency_key_reused: never;
    conflict: never;
    payload_too_large: never;
    unsupported_media_type: never;
    validation_failed: "unknown_field" | "too_long" | "out_of_range" | "invalid_key";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "invitations.open": {
    malformed_request: never;
    request_timeout: never;
    payload_too_large: never;
    unsupported_media_type: never;
    validation_failed:
      | "link_expired"
      | "unknown_field"
      | "too_long"
      | "out_of_range"
      | "invalid_type"
      | "invalid_text"
      | "required";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "invitations.join": {
    malformed_request: never;
    quota_exceeded: never;
    request_timeout: never;
    user_exists: never;
    payload_too_large: never;
    unsupported_media_type: never;
    validation_failed:
      | "link_expired"
      | "weak_password"
      | "unknown_field"
      | "too_long"
      | "out_of_range"
      | "invalid_type"
      | "invalid_text"
      | "required";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "auditEvents.list": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    request_timeout: never;
    validation_failed: "out_of_range" | "unknown_field" | "invalid_type" | "invalid_text" | "too_long";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "grants.list": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    request_timeout: never;
    validation_failed: "unknown_field" | "invalid_type" | "out_of_range" | "invalid_text";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "grants.get": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    not_found: never;
    request_timeout: never;
    validation_failed: "unknown_field";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "grants.revoke": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    machine_actor_forbidden: never;
    not_found: never;
    request_timeout: never;
    payload_too_large: never;
    unsupported_media_type: never;
    validation_failed: "unknown_field" | "too_long" | "out_of_range";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "me.get": {
    malformed_request: never;
    unauthenticated: never;
    machine_actor_forbidden: never;
    request_timeout: never;
    validation_failed: "unknown_field";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "me.update": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    machine_actor_forbidden: never;
    request_timeout: never;
    payload_too_large: never;
    unsupported_media_type: never;
    validation_failed:
      | "empty_patch"
      | "unknown_field"
      | "too_long"
      | "out_of_range"
      | "invalid_type"
      | "invalid_text"
      | "required";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "me.delete": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    machine_actor_forbidden: never;
    request_timeout: never;
    last_owner: never;
    first_owner: never;
    conflict: never;
    payload_too_large: never;
    unsupported_media_type: never;
    validation_failed:
      | "wrong_password"
      | "unknown_field"
      | "too_long"
      | "out_of_range"
      | "invalid_type"
      | "invalid_text"
      | "required";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "me.changePassword": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    machine_actor_forbidden: never;
    request_timeout: never;
    conflict: never;
    payload_too_large: never;
    unsupported_media_type: never;
    validation_failed:
      | "wrong_password"
      | "weak_password"
      | "unknown_field"
      | "too_long"
      | "out_of_range"
      | "invalid_type"
      | "invalid_text"
      | "required";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "me.listGrants": {
    malformed_request: never;
    unauthenticated: never;
    machine_actor_forbidden: never;
    request_timeout: never;
    validation_failed: "unknown_field";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "me.revokeGrants": {
    malformed_request: never;
    unauthenticated: never;
    machine_actor_forbidden: never;
    not_found: never;
    request_timeout: never;
    payload_too_large: never;
    unsupported_media_type: never;
    validation_failed: "unknown_field" | "too_long" | "out_of_range";
    rate_limited: never;
    internal: never;
    identity_provider_unavailable: never;
    unavailable: never;
  };
  "sessions.signIn": {
    malformed_request: never;
    unauthenticated: never;
    request_timeout: never;
    payload_too_large: never;
    unsupported_media_type: never;
    validation_failed:
      | "unknown_field"
      | "too_long"
      | "out_of_range"
      | "invalid_type"
      | "invalid_text"
      | "required";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "sessions.signOut": {
    malformed_request: never;
    unauthenticated: never;
    machine_actor_forbidden: never;
    request_timeout: never;
    conflict: never;
    payload_too_large: never;
    unsupported_media_type: never;
    validation_failed: "unknown_field" | "too_long" | "out_of_range";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "sessions.list": {
    malformed_request: never;
    unauthenticated: never;
    machine_actor_forbidden: never;
    request_timeout: never;
    validation_failed: "unknown_field" | "invalid_type" | "out_of_range" | "invalid_text";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "sessions.end": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    machine_actor_forbidden: never;
    not_found: never;
    request_timeout: never;
    payload_too_large: never;
    unsupported_media_type: never;
    validation_failed: "unknown_field" | "too_long" | "out_of_range";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "tokens.create": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    quota_exceeded: never;
    machine_actor_forbidden: never;
    request_timeout: never;
    idempotency_key_reused: never;
    conflict: never;
    payload_too_large: never;
    unsupported_media_type: never;
    validation_failed:
      | "out_of_range"
      | "invalid_choice"
      | "unknown_field"
      | "too_long"
      | "invalid_type"
      | "invalid_text"
      | "required"
      | "invalid_key";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "tokens.list": {
    malformed_request: never;
    unauthenticated: never;
    machine_actor_forbidden: never;
    request_timeout: never;
    validation_failed: "unknown_field" | "invalid_type" | "out_of_range" | "invalid_text";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "tokens.revoke": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    machine_actor_forbidden: never;
    not_found: never;
    request_timeout: never;
    payload_too_large: never;
    unsupported_media_type: never;
    validation_failed: "unknown_field" | "too_long" | "out_of_range";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "passwordResets.request": {
    malformed_request: never;
    request_timeout: never;
    mail_not_configured: never;
    payload_too_large: never;
    unsupported_media_type: never;
    validation_failed:
      | "invalid_email"
      | "unknown_field"
      | "too_long"
      | "out_of_range"
      | "invalid_type"
      | "invalid_text";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "passwordResets.complete": {
    malformed_request: never;
    request_timeout: never;
    payload_too_large: never;
    unsupported_media_type: never;
    validation_failed:
      | "link_expired"
      | "weak_password"
      | "unknown_field"
      | "too_long"
      | "out_of_range"
      | "invalid_type"
      | "invalid_text"
      | "required";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "oauth.registerClient": {
    invalid_redirect_uri: never;
    invalid_client_metadata: never;
    request_timeout: never;
    malformed_request: never;
    rate_limited: never;
    internal: never;
    identity_provider_unavailable: never;
    unavailable: never;
  };
  "oauth.getLoginRequest": {
    malformed_request: never;
    request_timeout: never;
    validation_failed:
      | "challenge_expired"
      | "unknown_field"
      | "invalid_type"
      | "invalid_text"
      | "required"
      | "too_long";
    rate_limited: never;
    internal: never;
    identity_provider_unavailable: never;
    unavailable: never;
  };
  "oauth.completeLogin": {
    malformed_request: never;
    unauthenticated: never;
    subject_mismatch: never;
    machine_actor_forbidden: never;
    request_timeout: never;
    idempotency_key_reused: never;
    conflict: never;
    payload_too_large: never;
    unsupported_media_type: never;
    validation_failed:
      | "challenge_expired"
      | "unknown_field"
      | "too_long"
      | "out_of_range"
      | "invalid_type"
      | "invalid_text"
      | "required"
      | "invalid_key";
    rate_limited: never;
    internal: never;
    identity_provider_unavailable: never;
    unavailable: never;
  };
  "oauth.rejectLogin": {
    malformed_request: never;
    request_timeout: never;
    payload_too_large: never;
    unsupported_media_type: never;
    validation_failed:
      | "challenge_expired"
      | "unknown_field"
      | "too_long"
      | "out_of_range"
      | "invalid_type"
      | "invalid_text"
      | "required";
    rate_limited: never;
    internal: never;
    identity_provider_unavailable: never;
    unavailable: never;
  };
  "oauth.getConsentRequest": {
    malformed_request: never;
    unauthenticated: never;
    subject_mismatch: never;
    machine_actor_forbidden: never;
    request_timeout: never;
    validation_failed:
      | "challenge_expired"
      | "unknown_field"
      | "invalid_type"
      | "invalid_text"
      | "required"
      | "too_long";
    rate_limited: never;
    internal: never;
    identity_provider_unavailable: never;
    unavailable: never;
  };
  "oauth.completeConsent": {
    malformed_request: never;
    unauthenticated: never;
    subject_mismatch: never;
    not_a_member: never;
    role_not_grantable: never;
    machine_actor_forbidden: never;
    request_timeout: never;
    idempotency_key_reused: never;
    conflict: never;
    payload_too_large: never;
    unsupported_media_type: never;
    validation_failed:
      | "challenge_expired"
      | "unknown_field"
      | "too_long"
      | "out_of_range"
      | "invalid_type"
      | "invalid_text"
      | "required"
      | "invalid_choice"
      | "invalid_key";
    rate_limited: never;
    internal: never;
    identity_provider_unavailable: never;
    unavailable: never;
  };
  "oauth.rejectConsent": {
    malformed_request: never;
    request_timeout: never;
    payload_too_large: never;
    unsupported_media_type: never;
    validation_failed:
      | "challenge_expired"
      | "unknown_field"
      | "too_long"
      | "out_of_range"
      | "invalid_type"
      | "invalid_text"
      | "required";
    rate_limited: never;
    internal: never;
    identity_provider_unavailable: never;
    unavailable: never;
  };
  "oauth.getDeviceRequest": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    subject_mismatch: never;
    machine_actor_forbidden: never;
    request_timeout: never;
    validation_failed:
      | "unknown_code"
      | "unknown_field"
      | "invalid_type"
      | "invalid_text"
      | "required"
      | "too_long";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "oauth.completeDevice": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    subject_mismatch: never;
    not_a_member: never;
    role_not_grantable: never;
    machine_actor_forbidden: never;
    request_timeout: never;
    idempotency_key_reused: never;
    conflict: never;
    payload_too_large: never;
    unsupported_media_type: never;
    validation_failed:
      | "unknown_code"
      | "unknown_field"
      | "too_long"
      | "out_of_range"
      | "invalid_type"
      | "invalid_text"
      | "required"
      | "invalid_choice"
      | "invalid_key";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "oauth.rejectDevice": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    subject_mismatch: never;
    machine_actor_forbidden: never;
    request_timeout: never;
    idempotency_key_reused: never;
    conflict: never;
    payload_too_large: never;
    unsupported_media_type: never;
    validation_failed:
      | "unknown_code"
      | "unknown_field"
      | "too_long"
      | "out_of_range"
      | "invalid_type"
      | "invalid_text"
      | "required"
      | "invalid_key";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "projects.create": {
    malformed_request: never;
    unauthenticated: never;
    quota_exceeded: never;
    forbidden: never;
    request_timeout: never;
    name_taken: never;
    idempotency_key_reused: never;
    conflict: never;
    payload_too_large: never;
    unsupported_media_type: never;
    validation_failed:
      | "invalid_name"
      | "unknown_field"
      | "too_long"
      | "out_of_range"
      | "invalid_type"
      | "invalid_text"
      | "invalid_key";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "projects.list": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    request_timeout: never;
    validation_failed: "unknown_field" | "invalid_type" | "out_of_range" | "invalid_text";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "projects.get": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    not_found: never;
    request_timeout: never;
    validation_failed: "unknown_field";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "projects.update": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    not_found: never;
    request_timeout: never;
    name_taken: never;
    payload_too_large: never;
    unsupported_media_type: never;
    validation_failed:
      | "invalid_name"
      | "unknown_field"
      | "too_long"
      | "out_of_range"
      | "invalid_type"
      | "invalid_text";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "projects.delete": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    not_found: never;
    request_timeout: never;
    impact_confirmation_required: never;
    payload_too_large: never;
    unsupported_media_type: never;
    validation_failed: "unknown_field" | "too_long" | "out_of_range" | "invalid_type";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "environments.create": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    not_found: never;
    request_timeout: never;
    name_taken: never;
    idempotency_key_reused: never;
    conflict: never;
    payload_too_large: never;
    unsupported_media_type: never;
    validation_failed:
      | "invalid_name"
      | "unknown_field"
      | "too_long"
      | "out_of_range"
      | "invalid_type"
      | "invalid_text"
      | "invalid_key";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "environments.list": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    not_found: never;
    request_timeout: never;
    validation_failed: "unknown_field" | "invalid_type" | "out_of_range" | "invalid_text";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "environments.get": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    not_found: never;
    request_timeout: never;
    validation_failed: "unknown_field";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "environments.update": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    not_found: never;
    request_timeout: never;
    name_taken: never;
    payload_too_large: never;
    unsupported_media_type: never;
    validation_failed:
      | "invalid_name"
      | "unknown_field"
      | "too_long"
      | "out_of_range"
      | "invalid_type"
      | "invalid_text";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "environments.delete": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    not_found: never;
    request_timeout: never;
    impact_confirmation_required: never;
    payload_too_large: never;
    unsupported_media_type: never;
    validation_failed: "unknown_field" | "too_long" | "out_of_range" | "invalid_type";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "environments.apply": {
    malformed_request: never;
    unauthenticated: never;
    compute_suspended: never;
    forbidden: never;
    not_found: never;
    request_timeout: never;
    idempotency_key_reused: never;
    conflict: never;
    account_not_provisioned: never;
    payload_too_large: never;
    unsupported_media_type: never;
    validation_failed:
      | "invalid_image"
      | "image_not_allowed"
      | "registry_not_allowed"
      | "unknown_field"
      | "too_long"
      | "out_of_range"
      | "invalid_key";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "environments.followEvents": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    not_found: never;
    request_timeout: never;
    validation_failed: "unknown_field";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "services.create": {
    malformed_request: never;
    unauthenticated: never;
    quota_exceeded: never;
    compute_suspended: never;
    forbidden: never;
    not_found: never;
    request_timeout: never;
    name_taken: never;
    backup_incomplete: never;
    backup_running: never;
    too_many_backups: never;
    service_not_ready: never;
    service_deleting: never;
    idempotency_key_reused: never;
    conflict: never;
    payload_too_large: never;
    unsupported_media_type: never;
    validation_failed:
      | "invalid_name"
      | "invalid_choice"
      | "invalid_path"
      | "out_of_range"
      | "too_long"
      | "invalid_source"
      | "invalid_image"
      | "image_not_allowed"
      | "registry_not_allowed"
      | "value_invalid"
      | "reserved_name"
      | "not_deployable"
      | "autoscaling_needs_cluster"
      | "not_for_type"
      | "invalid_schedule"
      | "invalid_time_zone"
      | "not_addon"
      | "other_type"
      | "not_supported_here"
      | "exclusive"
      | "unknown_field"
      | "invalid_type"
      | "invalid_text"
      | "required"
      | "invalid_version"
      | "invalid_key";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "services.list": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    not_found: never;
    request_timeout: never;
    validation_failed: "unknown_field" | "invalid_type" | "out_of_range" | "invalid_text";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "services.get": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    not_found: never;
    request_timeout: never;
    validation_failed: "unknown_field";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "services.update": {
    malformed_request: never;
    unauthenticated: never;
    quota_exceeded: never;
    compute_suspended: never;
    forbidden: never;
    not_found: never;
    request_timeout: never;
    name_taken: never;
    service_deleting: never;
    service_has_domains: never;
    payload_too_large: never;
    unsupported_media_type: never;
    validation_failed:
      | "empty_patch"
      | "invalid_name"
      | "invalid_choice"
      | "invalid_path"
      | "out_of_range"
      | "too_long"
      | "invalid_source"
      | "invalid_image"
      | "image_not_allowed"
      | "registry_not_allowed"
      | "value_invalid"
      | "reserved_name"
      | "not_deployable"
      | "autoscaling_needs_cluster"
      | "not_for_type"
      | "invalid_schedule"
      | "invalid_time_zone"
      | "not_supported_here"
      | "unknown_field"
      | "invalid_type"
      | "invalid_text"
      | "required"
      | "invalid_version";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "services.delete": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    not_found: never;
    request_timeout: never;
    impact_confirmation_required: never;
    payload_too_large: never;
    unsupported_media_type: never;
    validation_failed: "unknown_field" | "too_long" | "out_of_range" | "invalid_type";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "services.restart": {
    malformed_request: never;
    unauthenticated: never;
    compute_suspended: never;
    forbidden: never;
    not_found: never;
    request_timeout: never;
    service_not_live: never;
    service_staged: never;
    service_deleting: never;
    idempotency_key_reused: never;
    conflict: never;
    payload_too_large: never;
    unsupported_media_type: never;
    validation_failed: "not_deployable" | "unknown_field" | "too_long" | "out_of_range" | "invalid_key";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "services.rotateCredentials": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    not_found: never;
    request_timeout: never;
    service_not_ready: never;
    service_deleting: never;
    idempotency_key_reused: never;
    conflict: never;
    payload_too_large: never;
    unsupported_media_type: never;
    validation_failed: "not_addon" | "unknown_field" | "too_long" | "out_of_range" | "invalid_key";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "services.openTunnel": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    not_found: never;
    request_timeout: never;
    service_not_ready: never;
    service_deleting: never;
    idempotency_key_reused: never;
    conflict: never;
    payload_too_large: never;
    unsupported_media_type: never;
    validation_failed:
      | "not_addon"
      | "invalid_password"
      | "unknown_field"
      | "too_long"
      | "out_of_range"
      | "invalid_type"
      | "invalid_text"
      | "invalid_key";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "services.promote": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    not_found: never;
    request_timeout: never;
    service_not_ready: never;
    service_deleting: never;
    restore_running: never;
    idempotency_key_reused: never;
    conflict: never;
    payload_too_large: never;
    unsupported_media_type: never;
    validation_failed:
      | "not_addon"
      | "other_type"
      | "same_service"
      | "unknown_field"
      | "too_long"
      | "out_of_range"
      | "invalid_type"
      | "invalid_text"
      | "required"
      | "invalid_key";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "services.statistics": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    not_found: never;
    request_timeout: never;
    service_not_ready: never;
    service_deleting: never;
    validation_failed: "not_addon" | "unknown_field";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "backups.create": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    not_found: never;
    request_timeout: never;
    backup_running: never;
    restore_running: never;
    too_many_backups: never;
    service_not_ready: never;
    service_deleting: never;
    idempotency_key_reused: never;
    conflict: never;
    payload_too_large: never;
    unsupported_media_type: never;
    validation_failed:
      | "not_addon"
      | "not_supported_here"
      | "out_of_range"
      | "exclusive"
      | "upload_unknown"
      | "upload_missing"
      | "upload_content_type"
      | "upload_too_large"
      | "not_a_dump"
      | "unknown_field"
      | "too_long"
      | "invalid_type"
      | "invalid_text"
      | "required"
      | "invalid_key";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "backups.createUpload": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    not_found: never;
    request_timeout: never;
    too_many_backups: never;
    too_many_uploads: never;
    service_deleting: never;
    idempotency_key_reused: never;
    conflict: never;
    payload_too_large: never;
    unsupported_media_type: never;
    validation_failed:
      | "not_addon"
      | "not_supported_here"
      | "out_of_range"
      | "upload_too_large"
      | "unknown_field"
      | "too_long"
      | "invalid_type"
      | "invalid_key";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "backups.list": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    not_found: never;
    request_timeout: never;
    validation_failed: "unknown_field" | "invalid_type" | "out_of_range" | "invalid_text";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "backups.get": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    not_found: never;
    request_timeout: never;
    validation_failed: "unknown_field";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "backups.download": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    not_found: never;
    request_timeout: never;
    backup_incomplete: never;
    validation_failed: "unknown_field";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "backups.delete": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    not_found: never;
    request_timeout: never;
    backup_running: never;
    restore_running: never;
    payload_too_large: never;
    unsupported_media_type: never;
    validation_failed: "unknown_field" | "too_long" | "out_of_range";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "backups.restore": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    not_found: never;
    request_timeout: never;
    impact_confirmation_required: never;
    backup_running: never;
    restore_running: never;
    backup_incomplete: never;
    too_many_backups: never;
    service_not_ready: never;
    service_deleting: never;
    idempotency_key_reused: never;
    conflict: never;
    payload_too_large: never;
    unsupported_media_type: never;
    validation_failed:
      | "not_addon"
      | "not_supported_here"
      | "other_type"
      | "out_of_range"
      | "exclusive"
      | "unknown_field"
      | "too_long"
      | "invalid_type"
      | "invalid_text"
      | "required"
      | "invalid_key";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "keptBackups.list": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    request_timeout: never;
    validation_failed: "unknown_field" | "invalid_type" | "out_of_range" | "invalid_text";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "keptBackups.get": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    not_found: never;
    request_timeout: never;
    validation_failed: "unknown_field";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "keptBackups.download": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    not_found: never;
    request_timeout: never;
    validation_failed: "unknown_field";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "keptBackups.delete": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    not_found: never;
    request_timeout: never;
    restore_running: never;
    payload_too_large: never;
    unsupported_media_type: never;
    validation_failed: "unknown_field" | "too_long" | "out_of_range";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "domains.create": {
    malformed_request: never;
    unauthenticated: never;
    quota_exceeded: never;
    forbidden: never;
    not_found: never;
    request_timeout: never;
    domain_exists: never;
    service_deleting: never;
    idempotency_key_reused: never;
    conflict: never;
    payload_too_large: never;
    unsupported_media_type: never;
    validation_failed:
      | "invalid_host"
      | "host_not_allowed"
      | "not_web"
      | "not_public"
      | "unknown_field"
      | "too_long"
      | "out_of_range"
      | "invalid_type"
      | "invalid_text"
      | "required"
      | "invalid_key";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "domains.list": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    not_found: never;
    request_timeout: never;
    validation_failed: "unknown_field" | "invalid_type" | "invalid_text" | "out_of_range";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "domains.get": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    not_found: never;
    request_timeout: never;
    validation_failed: "unknown_field";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "domains.delete": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    not_found: never;
    request_timeout: never;
    payload_too_large: never;
    unsupported_media_type: never;
    validation_failed: "unknown_field" | "too_long" | "out_of_range";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "domains.check": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    not_found: never;
    request_timeout: never;
    idempotency_key_reused: never;
    conflict: never;
    payload_too_large: never;
    unsupported_media_type: never;
    validation_failed: "unknown_field" | "too_long" | "out_of_range" | "invalid_key";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "registries.create": {
    malformed_request: never;
    unauthenticated: never;
    quota_exceeded: never;
    forbidden: never;
    request_timeout: never;
    registry_exists: never;
    idempotency_key_reused: never;
    conflict: never;
    payload_too_large: never;
    unsupported_media_type: never;
    validation_failed:
      | "invalid_host"
      | "host_not_allowed"
      | "registry_not_allowed"
      | "invalid_user"
      | "unknown_field"
      | "too_long"
      | "out_of_range"
      | "invalid_type"
      | "invalid_text"
      | "required"
      | "invalid_key";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "registries.list": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    request_timeout: never;
    validation_failed: "unknown_field" | "invalid_type" | "invalid_text" | "out_of_range";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "registries.get": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    not_found: never;
    request_timeout: never;
    validation_failed: "unknown_field";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "registries.update": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    not_found: never;
    request_timeout: never;
    payload_too_large: never;
    unsupported_media_type: never;
    validation_failed:
      | "invalid_user"
      | "unknown_field"
      | "too_long"
      | "out_of_range"
      | "invalid_type"
      | "invalid_text"
      | "required";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "registries.delete": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    not_found: never;
    request_timeout: never;
    payload_too_large: never;
    unsupported_media_type: never;
    validation_failed: "unknown_field" | "too_long" | "out_of_range";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "runs.create": {
    malformed_request: never;
    unauthenticated: never;
    quota_exceeded: never;
    compute_suspended: never;
    forbidden: never;
    not_found: never;
    request_timeout: never;
    service_not_live: never;
    service_staged: never;
    service_deleting: never;
    too_many_runs: never;
    idempotency_key_reused: never;
    conflict: never;
    payload_too_large: never;
    unsupported_media_type: never;
    validation_failed:
      | "required"
      | "value_invalid"
      | "not_deployable"
      | "unknown_field"
      | "too_long"
      | "out_of_range"
      | "invalid_type"
      | "invalid_text"
      | "invalid_key";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "runs.list": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    not_found: never;
    request_timeout: never;
    validation_failed: "unknown_field" | "invalid_type" | "invalid_text" | "invalid_choice" | "out_of_range";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "runs.get": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    not_found: never;
    request_timeout: never;
    validation_failed: "unknown_field";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "runs.cancel": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    not_found: never;
    request_timeout: never;
    run_finished: never;
    idempotency_key_reused: never;
    conflict: never;
    payload_too_large: never;
    unsupported_media_type: never;
    validation_failed: "unknown_field" | "too_long" | "out_of_range" | "invalid_key";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "runs.logs": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    not_found: never;
    request_timeout: never;
    validation_failed: "unknown_field";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "runs.followLogs": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    not_found: never;
    request_timeout: never;
    validation_failed: "unknown_field";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "variables.create": {
    malformed_request: never;
    unauthenticated: never;
    quota_exceeded: never;
    forbidden: never;
    not_found: never;
    request_timeout: never;
    variable_exists: never;
    idempotency_key_reused: never;
    conflict: never;
    payload_too_large: never;
    unsupported_media_type: never;
    validation_failed:
      | "invalid_name"
      | "reserved_name"
      | "invalid_key"
      | "exactly_one_source"
      | "sensitive_requires_literal"
      | "value_too_large"
      | "value_invalid"
      | "alias_self_reference"
      | "alias_cycle"
      | "resolved_set_too_large"
      | "unknown_field"
      | "too_long"
      | "out_of_range"
      | "invalid_type"
      | "invalid_text"
      | "required";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "variables.list": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    not_found: never;
    request_timeout: never;
    validation_failed: "unknown_field" | "invalid_type" | "out_of_range" | "invalid_text";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "variables.get": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    not_found: never;
    request_timeout: never;
    validation_failed: "unknown_field";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "variables.update": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    not_found: never;
    request_timeout: never;
    revision_conflict: never;
    payload_too_large: never;
    unsupported_media_type: never;
    validation_failed:
      | "empty_patch"
      | "invalid_name"
      | "reserved_name"
      | "invalid_key"
      | "exactly_one_source"
      | "kind_mismatch"
      | "sensitive_requires_literal"
      | "value_too_large"
      | "value_invalid"
      | "alias_self_reference"
      | "alias_cycle"
      | "resolved_set_too_large"
      | "unknown_field"
      | "too_long"
      | "out_of_range"
      | "invalid_type"
      | "invalid_text"
      | "required";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "variables.delete": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    not_found: never;
    request_timeout: never;
    impact_confirmation_required: never;
    revision_conflict: never;
    payload_too_large: never;
    unsupported_media_type: never;
    validation_failed:
      | "resolved_set_too_large"
      | "unknown_field"
      | "too_long"
      | "out_of_range"
      | "invalid_type";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "variables.batch": {
    malformed_request: never;
    unauthenticated: never;
    quota_exceeded: never;
    forbidden: never;
    not_found: never;
    request_timeout: never;
    impact_confirmation_required: never;
    idempotency_key_reused: never;
    conflict: never;
    payload_too_large: never;
    unsupported_media_type: never;
    validation_failed:
      | "batch_too_large"
      | "duplicate_name"
      | "invalid_name"
      | "reserved_name"
      | "invalid_key"
      | "exactly_one_source"
      | "sensitive_requires_literal"
      | "value_too_large"
      | "value_invalid"
      | "alias_self_reference"
      | "alias_cycle"
      | "resolved_set_too_large"
      | "unknown_field"
      | "too_long"
      | "out_of_range"
      | "invalid_type"
      | "invalid_text"
      | "required";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "variables.impact": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    not_found: never;
    request_timeout: never;
    validation_failed: "unknown_field";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "variables.reveal": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    not_found: never;
    request_timeout: never;
    idempotency_key_reused: never;
    conflict: never;
    payload_too_large: never;
    unsupported_media_type: never;
    validation_failed:
      | "service_not_found"
      | "service_not_addon"
      | "key_not_found"
      | "service_not_ready"
      | "alias_target_not_found"
      | "alias_target_dangling"
      | "alias_cycle"
      | "alias_depth_exceeded"
      | "unknown_field"
      | "too_long"
      | "out_of_range"
      | "invalid_key";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "variables.resolve": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    not_found: never;
    request_timeout: never;
    validation_failed: "unknown_field";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "variables.followEvents": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    not_found: never;
    request_timeout: never;
    validation_failed: "unknown_field";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "variables.revealResolved": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    not_found: never;
    request_timeout: never;
    idempotency_key_reused: never;
    conflict: never;
    payload_too_large: never;
    unsupported_media_type: never;
    validation_failed: "unknown_field" | "too_long" | "out_of_range" | "invalid_key";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "deployments.deploy": {
    malformed_request: never;
    unauthenticated: never;
    compute_suspended: never;
    forbidden: never;
    not_found: never;
    request_timeout: never;
    service_deleting: never;
    idempotency_key_reused: never;
    conflict: never;
    account_not_provisioned: never;
    payload_too_large: never;
    unsupported_media_type: never;
    validation_failed:
      | "no_deployable_image"
      | "invalid_image"
      | "image_not_allowed"
      | "registry_not_allowed"
      | "not_deployable"
      | "unknown_field"
      | "too_long"
      | "out_of_range"
      | "invalid_type"
      | "invalid_text"
      | "required"
      | "invalid_key";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "deployments.createUpload": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    not_found: never;
    request_timeout: never;
    service_deleting: never;
    idempotency_key_reused: never;
    conflict: never;
    payload_too_large: never;
    unsupported_media_type: never;
    validation_failed:
      | "not_deployable"
      | "archive_too_large"
      | "out_of_range"
      | "unknown_field"
      | "too_long"
      | "invalid_type"
      | "invalid_key";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "deployments.deployFromArchive": {
    malformed_request: never;
    unauthenticated: never;
    compute_suspended: never;
    forbidden: never;
    not_found: never;
    request_timeout: never;
    service_deleting: never;
    idempotency_key_reused: never;
    conflict: never;
    account_not_provisioned: never;
    payload_too_large: never;
    unsupported_media_type: never;
    validation_failed:
      | "not_deployable"
      | "archive_ref_mismatch"
      | "archive_not_uploaded"
      | "archive_content_type"
      | "unknown_field"
      | "too_long"
      | "out_of_range"
      | "invalid_type"
      | "invalid_text"
      | "required"
      | "invalid_key";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "deployments.rollback": {
    malformed_request: never;
    unauthenticated: never;
    quota_exceeded: never;
    compute_suspended: never;
    forbidden: never;
    not_found: never;
    request_timeout: never;
    version_never_live: never;
    version_is_current: never;
    service_staged: never;
    service_has_domains: never;
    service_deleting: never;
    idempotency_key_reused: never;
    conflict: never;
    account_not_provisioned: never;
    payload_too_large: never;
    unsupported_media_type: never;
    validation_failed:
      | "required"
      | "not_deployable"
      | "configuration_frozen"
      | "image_not_restorable"
      | "image_not_allowed"
      | "registry_not_allowed"
      | "unknown_field"
      | "too_long"
      | "out_of_range"
      | "invalid_type"
      | "invalid_key";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "deployments.clearBuildCache": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    not_found: never;
    request_timeout: never;
    service_deleting: never;
    idempotency_key_reused: never;
    conflict: never;
    payload_too_large: never;
    unsupported_media_type: never;
    validation_failed: "not_deployable" | "unknown_field" | "too_long" | "out_of_range" | "invalid_key";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "deployments.cancel": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    not_found: never;
    request_timeout: never;
    deployment_finished: never;
    service_deleting: never;
    idempotency_key_reused: never;
    conflict: never;
    payload_too_large: never;
    unsupported_media_type: never;
    validation_failed: "unknown_field" | "too_long" | "out_of_range" | "invalid_key";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "deployments.list": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    not_found: never;
    request_timeout: never;
    validation_failed: "unknown_field" | "invalid_type" | "out_of_range" | "invalid_text";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "deployments.get": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    not_found: never;
    request_timeout: never;
    validation_failed: "unknown_field";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "deployments.follow": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    not_found: never;
    request_timeout: never;
    validation_failed: "unknown_field";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "deployments.buildLogs": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    not_found: never;
    request_timeout: never;
    validation_failed: "unknown_field";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "deployments.followBuildLogs": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    not_found: never;
    request_timeout: never;
    validation_failed: "unknown_field";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "logs.list": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    not_found: never;
    request_timeout: never;
    validation_failed:
      | "invalid_choice"
      | "out_of_range"
      | "not_supported_here"
      | "unknown_field"
      | "invalid_type"
      | "invalid_text";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "logs.follow": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    not_found: never;
    request_timeout: never;
    validation_failed:
      | "invalid_choice"
      | "out_of_range"
      | "not_supported_here"
      | "unknown_field"
      | "invalid_type"
      | "invalid_text";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "metrics.get": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    not_found: never;
    request_timeout: never;
    validation_failed: "out_of_range" | "unknown_field" | "invalid_type";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "notifications.list": {
    malformed_request: never;
    unauthenticated: never;
    machine_actor_forbidden: never;
    request_timeout: never;
    validation_failed: "unknown_field" | "invalid_type" | "invalid_text" | "out_of_range";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "notifications.countUnread": {
    malformed_request: never;
    unauthenticated: never;
    machine_actor_forbidden: never;
    request_timeout: never;
    validation_failed: "unknown_field";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "notifications.markRead": {
    malformed_request: never;
    unauthenticated: never;
    machine_actor_forbidden: never;
    not_found: never;
    request_timeout: never;
    idempotency_key_reused: never;
    conflict: never;
    payload_too_large: never;
    unsupported_media_type: never;
    validation_failed: "unknown_field" | "too_long" | "out_of_range" | "invalid_key";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "notifications.markAllRead": {
    malformed_request: never;
    unauthenticated: never;
    machine_actor_forbidden: never;
    request_timeout: never;
    idempotency_key_reused: never;
    conflict: never;
    payload_too_large: never;
    unsupported_media_type: never;
    validation_failed: "unknown_field" | "too_long" | "out_of_range" | "invalid_key";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "notifications.decisions": {
    malformed_request: never;
    unauthenticated: never;
    machine_actor_forbidden: never;
    not_found: never;
    request_timeout: never;
    validation_failed: "unknown_field";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "notifications.follow": {
    malformed_request: never;
    unauthenticated: never;
    machine_actor_forbidden: never;
    request_timeout: never;
    validation_failed: "unknown_field";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "notifications.listPreferences": {
    malformed_request: never;
    unauthenticated: never;
    machine_actor_forbidden: never;
    request_timeout: never;
    validation_failed: "unknown_field";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "notifications.setPreference": {
    malformed_request: never;
    unauthenticated: never;
    machine_actor_forbidden: never;
    request_timeout: never;
    payload_too_large: never;
    unsupported_media_type: never;
    validation_failed:
      | "unknown_kind"
      | "unknown_field"
      | "too_long"
      | "out_of_range"
      | "invalid_type"
      | "invalid_text"
      | "required"
      | "invalid_choice";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "webhooks.create": {
    malformed_request: never;
    unauthenticated: never;
    quota_exceeded: never;
    forbidden: never;
    request_timeout: never;
    idempotency_key_reused: never;
    conflict: never;
    payload_too_large: never;
    unsupported_media_type: never;
    validation_failed:
      | "invalid_url"
      | "unknown_kind"
      | "unknown_field"
      | "too_long"
      | "out_of_range"
      | "invalid_type"
      | "invalid_text"
      | "required"
      | "invalid_choice"
      | "invalid_key";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "webhooks.list": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    request_timeout: never;
    validation_failed: "unknown_field" | "invalid_type" | "invalid_text" | "out_of_range";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "webhooks.get": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    not_found: never;
    request_timeout: never;
    validation_failed: "unknown_field";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "webhooks.update": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    not_found: never;
    request_timeout: never;
    payload_too_large: never;
    unsupported_media_type: never;
    validation_failed:
      | "invalid_url"
      | "unknown_kind"
      | "unknown_field"
      | "too_long"
      | "out_of_range"
      | "invalid_type"
      | "invalid_text"
      | "required"
      | "invalid_choice";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "webhooks.delete": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    not_found: never;
    request_timeout: never;
    payload_too_large: never;
    unsupported_media_type: never;
    validation_failed: "unknown_field" | "too_long" | "out_of_range";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "webhooks.rotateSecret": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    not_found: never;
    request_timeout: never;
    idempotency_key_reused: never;
    conflict: never;
    payload_too_large: never;
    unsupported_media_type: never;
    validation_failed: "unknown_field" | "too_long" | "out_of_range" | "invalid_key";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "webhooks.test": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    not_found: never;
    request_timeout: never;
    webhook_disabled: never;
    idempotency_key_reused: never;
    conflict: never;
    payload_too_large: never;
    unsupported_media_type: never;
    validation_failed: "unknown_field" | "too_long" | "out_of_range" | "invalid_key";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "webhooks.deliveries": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    not_found: never;
    request_timeout: never;
    validation_failed: "unknown_field" | "invalid_type" | "invalid_text" | "invalid_choice" | "out_of_range";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "webhooks.getDelivery": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    not_found: never;
    request_timeout: never;
    validation_failed: "unknown_field";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "webhooks.replay": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    not_found: never;
    request_timeout: never;
    webhook_disabled: never;
    delivery_pending: never;
    idempotency_key_reused: never;
    conflict: never;
    payload_too_large: never;
    unsupported_media_type: never;
    validation_failed: "unknown_field" | "too_long" | "out_of_range" | "invalid_key";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "unsubscriptions.get": {
    malformed_request: never;
    not_found: never;
    request_timeout: never;
    validation_failed: "unknown_field";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "unsubscriptions.unsubscribe": {
    malformed_request: never;
    not_found: never;
    request_timeout: never;
    payload_too_large: never;
    unsupported_media_type: never;
    validation_failed: "unknown_field" | "too_long" | "out_of_range";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "subscription.create": {
    malformed_request: never;
    unauthenticated: never;
    tier_not_self_serve: never;
    direct_agreement: never;
    forbidden: never;
    request_timeout: never;
    subscription_exists: never;
    idempotency_key_reused: never;
    conflict: never;
    payload_too_large: never;
    unsupported_media_type: never;
    validation_failed:
      | "invalid_choice"
      | "unknown_field"
      | "too_long"
      | "out_of_range"
      | "invalid_type"
      | "invalid_text"
      | "required"
      | "invalid_key";
    rate_limited: never;
    internal: never;
    payment_provider_unavailable: never;
    unavailable: never;
  };
  "subscription.get": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    subscription_not_found: never;
    request_timeout: never;
    validation_failed: "unknown_field";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "subscription.previewCheckout": {
    malformed_request: never;
    unauthenticated: never;
    tier_not_self_serve: never;
    direct_agreement: never;
    forbidden: never;
    request_timeout: never;
    subscription_exists: never;
    validation_failed:
      | "invalid_choice"
      | "unknown_field"
      | "invalid_type"
      | "invalid_text"
      | "required"
      | "too_long";
    rate_limited: never;
    internal: never;
    payment_provider_unavailable: never;
    unavailable: never;
  };
  "subscription.previewCancellation": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    subscription_not_found: never;
    request_timeout: never;
    subscription_canceling: never;
    validation_failed: "unknown_field";
    rate_limited: never;
    internal: never;
    payment_provider_unavailable: never;
    unavailable: never;
  };
  "subscription.previewChange": {
    malformed_request: never;
    unauthenticated: never;
    tier_not_self_serve: never;
    forbidden: never;
    subscription_not_found: never;
    request_timeout: never;
    subscription_canceling: never;
    payment_due: never;
    renewal_under_way: never;
    plan_change_pending: never;
    validation_failed:
      | "invalid_choice"
      | "empty_patch"
      | "one_change"
      | "unknown_field"
      | "invalid_type"
      | "invalid_text"
      | "required"
      | "too_long";
    rate_limited: never;
    internal: never;
    payment_provider_unavailable: never;
    unavailable: never;
  };
  "subscription.update": {
    malformed_request: never;
    unauthenticated: never;
    tier_not_self_serve: never;
    forbidden: never;
    subscription_not_found: never;
    request_timeout: never;
    subscription_canceling: never;
    payment_due: never;
    payment_declined: never;
    renewal_under_way: never;
    plan_change_pending: never;
    preview_outdated: never;
    payload_too_large: never;
    unsupported_media_type: never;
    validation_failed:
      | "invalid_choice"
      | "empty_patch"
      | "one_change"
      | "unknown_field"
      | "too_long"
      | "out_of_range"
      | "invalid_type"
      | "invalid_text"
      | "required";
    rate_limited: never;
    internal: never;
    payment_provider_unavailable: never;
    unavailable: never;
  };
  "subscription.cancel": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    subscription_not_found: never;
    request_timeout: never;
    subscription_canceling: never;
    payload_too_large: never;
    unsupported_media_type: never;
    validation_failed: "unknown_field" | "too_long" | "out_of_range";
    rate_limited: never;
    internal: never;
    payment_provider_unavailable: never;
    unavailable: never;
  };
  "usage.get": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    request_timeout: never;
    validation_failed: "unknown_field";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "usage.lines": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    request_timeout: never;
    validation_failed: "unknown_field" | "invalid_type" | "invalid_text" | "out_of_range";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "statements.list": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    request_timeout: never;
    validation_failed: "unknown_field" | "invalid_type" | "invalid_text" | "out_of_range";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "statements.get": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    not_found: never;
    request_timeout: never;
    validation_failed: "unknown_field";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "statements.csv": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    not_found: never;
    request_timeout: never;
    validation_failed: "unknown_field";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "spendLimit.get": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    request_timeout: never;
    validation_failed: "unknown_field";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "spendLimit.set": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    request_timeout: never;
    payload_too_large: never;
    unsupported_media_type: never;
    validation_failed: "not_cents" | "unknown_field" | "too_long" | "out_of_range" | "invalid_type";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "invoices.list": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    request_timeout: never;
    validation_failed: "unknown_field" | "invalid_type" | "invalid_text" | "out_of_range";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "coupon.redeem": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    coupon_not_found: never;
    request_timeout: never;
    idempotency_key_reused: never;
    conflict: never;
    payload_too_large: never;
    unsupported_media_type: never;
    validation_failed:
      | "expired"
      | "redemption_limit"
      | "plan_restricted"
      | "not_eligible"
      | "unknown_field"
      | "too_long"
      | "out_of_range"
      | "invalid_type"
      | "invalid_text"
      | "required"
      | "invalid_key";
    rate_limited: never;
    internal: never;
    payment_provider_unavailable: never;
    unavailable: never;
  };
  "coupon.get": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    request_timeout: never;
    validation_failed: "unknown_field";
    rate_limited: never;
    internal: never;
    unavailable: never;
  };
  "coupon.remove": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    request_timeout: never;
    payload_too_large: never;
    unsupported_media_type: never;
    validation_failed: "unknown_field" | "too_long" | "out_of_range";
    rate_limited: never;
    internal: never;
    payment_provider_unavailable: never;
    unavailable: never;
  };
  "billing.openPortal": {
    malformed_request: never;
    unauthenticated: never;
    forbidden: never;
    request_timeout: never;
    no_billing_customer: never;
    validation_failed: "unknown_field";
    rate_limited: never;
    internal: never;
    payment_provider_unavailable: never;
    unavailable: never;
  };
};
