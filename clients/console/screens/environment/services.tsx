import { useMutation } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { Suspense, useState, useSyncExternalStore } from "react";
import type { ServiceState } from "../../../typescript/src/index.ts";
import { Address } from "../../design/address.tsx";
import { Alert } from "../../design/form.tsx";
import { short } from "../../design/format.ts";
import { lazyPart } from "../../design/lazy-screen.tsx";
import { Rows } from "../../design/rows.tsx";
import { Empty, Loading, Status } from "../../design/state.tsx";
import { useEnvironment, useEnvironmentNames } from "../../live/environment.tsx";
import { useEnvironmentAddress, useMayEdit } from "../../session/address.ts";
import { berth } from "../../session/api.ts";
import { texts } from "../../texts.ts";
import { NewService } from "./new-service.tsx";

const Canvas = lazyPart(() => import("./canvas.tsx").then((file) => file.Canvas));

/** As wide as two columns of cards need it. */
const WIDE = matchMedia("(min-width: 45rem)");

function useIsWide(): boolean {
  const subscribe = (changed: () => void) => {
    WIDE.addEventListener("change", changed);
    return () => WIDE.removeEventListener("change", changed);
  };
  return useSyncExternalStore(subscribe, () => WIDE.matches);
}

/** The services and addons of an environment, as they are now: a table, or where there is room a canvas. */
export function Services() {
  const { services } = useEnvironment();
  const { project, environment } = useEnvironmentNames(useEnvironmentAddress());
  const mayEdit = useMayEdit();
  const [isCreating, setIsCreating] = useState(false);
  const [name, setName] = useState("");
  const { view } = useSearch({ strict: false }) as { view?: "canvas" };
  const isWide = useIsWide();
  const isCanvas = view === "canvas" && isWide;
  if (!services) return <Loading />;
  const shown = services.filter((service) => service.name.includes(name.toLowerCase()));
  return (
    <>
      <title>{`${project} ${environment} – ${texts.name}`}</title>
      <div className="head">
        <h1>{texts.environment.services}</h1>
        {services.length > 10 && (
          <input
            type="search"
            aria-label={texts.environment.filter}
            placeholder={texts.environment.filter}
            value={name}
            onChange={({ target }) => setName(target.value)}
          />
        )}
        {isWide && services.length > 0 && <Views isCanvas={isCanvas} />}
        {mayEdit && (
          <button type="button" className="main" onClick={() => setIsCreating(true)}>
            {texts.environment.create}
          </button>
        )}
      </div>
      <Staged services={services} />
      {services.length === 0 && (
        <Empty title={texts.environment.empty}>
          <p>{texts.environment.emptyHint}</p>
          <p className="hint">
            {texts.home.cli} <code>berth up</code>
          </p>
        </Empty>
      )}
      {services.length > 0 && shown.length === 0 && <p className="hint">{texts.environment.noMatch}</p>}
      {shown.length > 0 && !isCanvas && <ServiceTable services={shown} />}
      {shown.length > 0 && isCanvas && (
        <Suspense fallback={<Loading />}>
          <Canvas services={shown} />
        </Suspense>
      )}
      {isCreating && <NewService onClose={() => setIsCreating(false)} />}
    </>
  );
}

function Views({ isCanvas }: { isCanvas: boolean }) {
  const at = useEnvironmentAddress();
  const navigate = useNavigate();
  const open = (view: "canvas" | undefined) =>
    void navigate({
      to: "/accounts/$accountId/projects/$projectId/environments/$environmentId",
      params: at,
      search: view ? { view } : {},
      replace: true,
    });
  return (
    <fieldset className="views" aria-label={texts.canvas.views}>
      <button type="button" aria-pressed={!isCanvas} onClick={() => open(undefined)}>
        {texts.canvas.table}
      </button>
      <button type="button" aria-pressed={isCanvas} onClick={() => open("canvas")}>
        {texts.canvas.canvas}
      </button>
    </fieldset>
  );
}

function ServiceTable({ services }: { services: ServiceState[] }) {
  const { name, type, status, address, version, replicas } = texts.environment;
  return (
    <div className="table">
      <table aria-rowcount={services.length + 1}>
        <caption className="unseen">{texts.environment.services}</caption>
        <thead>
          <tr>
            {[name, status, type, address, version, replicas].map((title) => (
              <th key={title} scope="col">
                {title}
              </th>
            ))}
          </tr>
        </thead>
        <Rows
          items={services}
          keyOf={({ id }) => id}
          rowHeight={44}
          columns={6}
          row={(service) => <Cells service={service} />}
        />
      </table>
    </div>
  );
}

function Cells({ service }: { service: ServiceState }) {
  const at = useEnvironmentAddress();
  const { name, type, status, statusMessage, url, release, replicas, pendingChanges } = service;
  const none = texts.environment.none;
  return (
    <>
      <th scope="row">
        <Link
          to="/accounts/$accountId/projects/$projectId/environments/$environmentId/services/$service"
          params={{ ...at, service: name }}
        >
          {name}
        </Link>
      </th>
      <td>
        <Status status={status} />
        {statusMessage && <span className="hint"> {statusMessage}</span>}
        {pendingChanges && <span className="hint"> {texts.environment.pending}</span>}
      </td>
      <td>{texts.types[type]}</td>
      <td>{url ? <Address url={url} /> : none}</td>
      <td className="number">
        {release ? `v${release.version}` : none}
        {release?.commit && <code> {short(release.commit)}</code>}
      </td>
      <td className="number">{texts.environment.replicasOf(replicas.available, replicas.wanted)}</td>
    </>
  );
}

/** What is staged, and the button that makes it. */
function Staged({ services }: { services: ServiceState[] }) {
  const at = useEnvironmentAddress();
  const mayEdit = useMayEdit();
  const apply = useMutation({ mutationFn: () => berth.environments.apply(at) });
  const staged = services.filter((service) => service.staged).length;
  if (staged === 0) return null;
  return (
    <div className="note">
      <p>{texts.environment.staged(staged)}</p>
      {mayEdit && (
        <button
          type="button"
          aria-disabled={apply.isPending}
          onClick={() => apply.isPending || apply.mutate()}
        >
          {texts.environment.apply}
        </button>
      )}
      <Alert error={apply.error} />
    </div>
  );
}
