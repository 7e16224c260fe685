import { Link, Outlet } from "@tanstack/react-router";
import { Address } from "../../design/address.tsx";
import { Empty, Loading, Status } from "../../design/state.tsx";
import { useEnvironmentNames, useServiceState } from "../../live/environment.tsx";
import { useServiceAddress } from "../../session/address.ts";
import { texts } from "../../texts.ts";

const SERVICE = "/accounts/$accountId/projects/$projectId/environments/$environmentId/services/$service";

/** What all screens of a service have: its name, how it is, and the ways to the others. */
export function ServiceLayout() {
  const at = useServiceAddress();
  const state = useServiceState(at.service);
  const { project, environment } = useEnvironmentNames(at);
  if (state === undefined) return <Loading />;
  if (state === null)
    return (
      <Empty isScreen title={texts.failures.gone}>
        <p>{texts.service.notHere}</p>
      </Empty>
    );
  const { name, status, statusMessage, url, type } = state;
  const isApp = type !== "postgres" && type !== "redis";
  return (
    <>
      <title>{`${name} – ${project} ${environment} – ${texts.name}`}</title>
      <div className="head">
        <h1>{name}</h1>
        <p>
          <Status status={status} /> <span className="hint">{texts.types[type]}</span>{" "}
          {url && <Address url={url} />}
        </p>
      </div>
      {statusMessage && <p className="note">{statusMessage}</p>}
      <nav className="tabs" aria-label={texts.service.sections}>
        <Link to={SERVICE} params={at} activeOptions={{ exact: true, includeSearch: false }}>
          {texts.service.tabs.deployments}
        </Link>
        {type !== "cron" && (
          <Link to={`${SERVICE}/logs`} params={at}>
            {texts.service.tabs.logs}
          </Link>
        )}
        {isApp && (
          <>
            <Link to={`${SERVICE}/runs`} params={at}>
              {texts.service.tabs.runs}
            </Link>
            <Link to={`${SERVICE}/variables`} params={at}>
              {texts.service.tabs.variables}
            </Link>
          </>
        )}
        {!isApp && (
          <Link to={`${SERVICE}/backups`} params={at}>
            {texts.service.tabs.backups}
          </Link>
        )}
        <Link to={`${SERVICE}/settings`} params={at}>
          {texts.service.tabs.settings}
        </Link>
      </nav>
      <Outlet />
    </>
  );
}
