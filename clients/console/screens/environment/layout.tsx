import { Link, Outlet } from "@tanstack/react-router";
import { isRefusal } from "../../../typescript/src/index.ts";
import { Failure, LiveMark } from "../../design/state.tsx";
import { EnvironmentLive, useEnvironment, useEnvironmentNames } from "../../live/environment.tsx";
import { useEnvironmentAddress, useServiceAddress } from "../../session/address.ts";
import { texts } from "../../texts.ts";

/** Everything below an environment: where one is, and whether what is shown is live. */
export function EnvironmentLayout() {
  const at = useEnvironmentAddress();
  return (
    <EnvironmentLive at={at}>
      <div className="where">
        <Path />
        <EnvironmentMark />
      </div>
      <Screen />
    </EnvironmentLive>
  );
}

function Screen() {
  const { services, liveness } = useEnvironment();
  // Gone, or not the user's any more: what is still known of it would mislead.
  if (liveness.status === "over" && isRefusal(liveness.error))
    return <Failure isScreen error={liveness.error} />;
  if (liveness.status === "lost" && !services) return <Failure isScreen error={liveness.error} />;
  return <Outlet />;
}

function EnvironmentMark() {
  return <LiveMark liveness={useEnvironment().liveness} />;
}

function Path() {
  const at = useEnvironmentAddress();
  const { service } = useServiceAddress();
  const { project, environment } = useEnvironmentNames(at);
  return (
    <nav aria-label={texts.frame.path}>
      <ol>
        <li>
          <Link to="/accounts/$accountId" params={at}>
            {project}
          </Link>
        </li>
        <li>
          <Link
            to="/accounts/$accountId/projects/$projectId/environments/$environmentId"
            params={at}
            activeOptions={{ exact: true }}
          >
            {environment}
          </Link>
        </li>
        {service !== undefined && <li aria-current="page">{service}</li>}
      </ol>
    </nav>
  );
}
