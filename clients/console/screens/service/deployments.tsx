import { useMutation } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import type { Deployment, ServiceAddress, ServiceState } from "../../../typescript/src/index.ts";
import { actorOf } from "../../design/audit-words.ts";
import { Alert } from "../../design/form.tsx";
import { lasting, short } from "../../design/format.ts";
import { Rows } from "../../design/rows.tsx";
import { Ago, Empty, Failure, Loading, Status } from "../../design/state.tsx";
import { Table } from "../../design/table.tsx";
import { useServiceState } from "../../live/environment.tsx";
import { useNames } from "../../live/names.ts";
import { queries } from "../../live/queries.ts";
import { useMayEdit, useServiceAddress } from "../../session/address.ts";
import { berth } from "../../session/api.ts";
import { serverTime } from "../../session/clock.ts";
import { texts } from "../../texts.ts";
import { Addon } from "./addon.tsx";
import { DeployDialog, RollbackDialog } from "./deploy-dialog.tsx";
import { useHistory } from "./history.ts";
import { stageOf, tookMs } from "./stage.ts";
import type { Given } from "./upload/tree.ts";
import { UploadDialog } from "./upload/upload-dialog.tsx";
import { useDrop } from "./upload/use-drop.ts";

const SERVICE = "/accounts/$accountId/projects/$projectId/environments/$environmentId/services/$service";

/** The deployments of a service, the newest first; the environment's stream says when there is news of them. */
export function Deployments() {
  const at = useServiceAddress();
  const state = useServiceState(at.service);
  if (!state) return null;
  if (state.type === "postgres" || state.type === "redis") return <Addon at={at} state={state} />;
  return <DeploymentList at={at} state={state} />;
}

function DeploymentList({ at, state }: { at: ServiceAddress; state: ServiceState }) {
  const [rollback, setRollback] = useState<number>();
  const { history, older } = useHistory(at, state.id);
  const { release, deployment, status } = state;
  const news = JSON.stringify([release?.version, deployment, status]);
  useEffect(() => {
    if (news) void queries.invalidateQueries({ queryKey: ["deployments", state.id] });
  }, [news, state.id]);
  if (history.isPending) return <Loading />;
  if (!history.data) return <Failure error={history.error} retry={() => void history.refetch()} />;
  const { deployments, next } = history.data;
  const { version, state: title, source, by, began, took, actions } = texts.service;
  return (
    <>
      <Actions at={at} state={state} />
      {deployments.length === 0 && (
        <Empty title={texts.service.noDeployments}>
          <p>{texts.service.noDeploymentsHint}</p>
          <p className="hint">
            {texts.home.cli} <code>berth up</code>
          </p>
        </Empty>
      )}
      {deployments.length > 0 && (
        <Table
          caption={texts.service.tabs.deployments}
          columns={[version, title, source, by, began, took, actions]}
        >
          <Rows
            items={deployments}
            keyOf={({ id }) => id}
            rowHeight={52}
            columns={7}
            row={(one) => <Cells at={at} deployment={one} state={state} onRollback={setRollback} />}
          />
        </Table>
      )}
      {next !== undefined && (
        <button
          type="button"
          aria-disabled={older.isPending}
          onClick={() => older.isPending || older.mutate(next)}
        >
          {texts.service.older}
        </button>
      )}
      <Alert error={older.error} />
      {rollback !== undefined && (
        <RollbackDialog at={at} version={rollback} onClose={() => setRollback(undefined)} />
      )}
    </>
  );
}

function Actions({ at, state }: { at: ServiceAddress; state: ServiceState }) {
  const { deploy, upload } = useSearch({ strict: false }) as { deploy?: boolean; upload?: boolean };
  const mayEdit = useMayEdit();
  const navigate = useNavigate();
  const restart = useMutation({ mutationFn: () => berth.services.restart(at) });
  const [given, setGiven] = useState<Given>();
  const open = (search: { deploy?: true; upload?: true }) =>
    void navigate({ to: SERVICE, params: at, search });
  useDrop((dropped) => {
    if (!mayEdit) return;
    setGiven(dropped);
    open({ upload: true });
  });
  if (!mayEdit) return null;
  return (
    <>
      <p className="actions">
        <button type="button" className="main" onClick={() => open({ deploy: true })}>
          {texts.service.deploy}
        </button>
        <button type="button" onClick={() => open({ upload: true })}>
          {texts.upload.open}
        </button>
        {state.release && (
          <button
            type="button"
            aria-disabled={restart.isPending}
            onClick={() => restart.isPending || restart.mutate()}
          >
            {texts.service.restart}
          </button>
        )}
      </p>
      <Alert error={restart.error} />
      {restart.isSuccess && <p role="status">{texts.service.restarted}</p>}
      {deploy && <DeployDialog at={at} onClose={() => open({})} />}
      {upload && (
        <UploadDialog
          at={at}
          given={given}
          onClose={() => {
            setGiven(undefined);
            open({});
          }}
        />
      )}
    </>
  );
}

type CellsProps = {
  at: ServiceAddress;
  deployment: Deployment;
  state: ServiceState;
  onRollback: (version: number) => void;
};

function Cells({ at, deployment, state, onRollback }: CellsProps) {
  const mayEdit = useMayEdit();
  const { version, errors, warnings, createdAt } = deployment;
  const { status, step } = stageOf(deployment, state);
  const isUnderWay = ["queued", "building", "built"].includes(status);
  const params = { ...at, version: String(version) };
  return (
    <>
      <th scope="row" className="number">
        <Link to={`${SERVICE}/deployments/$version`} params={params}>
          v{version}
        </Link>
      </th>
      <td>
        <Status status={status} />
        {step && <span className="hint"> {step}</span>}
        {[...errors, ...warnings].slice(0, 2).map((notice) => (
          <span key={notice.code + notice.at} className={errors.includes(notice) ? "hint bad" : "hint"}>
            {" "}
            {notice.message}
          </span>
        ))}
      </td>
      <td>
        <Source deployment={deployment} />
      </td>
      <td>
        <By deployment={deployment} />
      </td>
      <td>
        <Ago time={createdAt} />
      </td>
      <td className="number">
        <Took deployment={deployment} isUnderWay={isUnderWay} />
      </td>
      <td>
        <Link to={`${SERVICE}/deployments/$version`} params={params}>
          {deployment.buildId ? texts.service.log : texts.service.details}
          <span className="unseen"> v{version}</span>
        </Link>{" "}
        {mayEdit && isUnderWay && <Cancel at={at} version={version} />}
        {mayEdit && status === "replaced" && (
          <button type="button" className="quiet" onClick={() => onRollback(version)}>
            {texts.service.rollback}
            <span className="unseen"> v{version}</span>
          </button>
        )}
      </td>
    </>
  );
}

function Cancel({ at, version }: { at: ServiceAddress; version: number }) {
  const cancel = useMutation({ mutationFn: () => berth.deployments.cancel(at, version) });
  return (
    <>
      <button
        type="button"
        className="quiet"
        aria-disabled={cancel.isPending}
        onClick={() => cancel.isPending || cancel.mutate()}
      >
        {texts.service.cancel}
        <span className="unseen"> v{version}</span>
      </button>
      <Alert error={cancel.error} />
    </>
  );
}

/** Who made a deployment; nothing of one that was made before this was recorded. */
export function By({ deployment: { createdBy } }: { deployment: Deployment }) {
  const names = useNames(useServiceAddress());
  return createdBy && <bdi>{actorOf(createdBy, names)}</bdi>;
}

export function Source({ deployment }: { deployment: Deployment }) {
  const { branch, commit, archiveRef, image, builtVersion } = deployment;
  if (branch !== undefined)
    return (
      <>
        {branch} {commit && <code title={commit}>{short(commit)}</code>}
      </>
    );
  if (archiveRef !== undefined) return texts.service.archive;
  if (builtVersion !== undefined && builtVersion !== deployment.version) return `v${builtVersion}`;
  return <code>{image?.split("@")[0]}</code>;
}

function Took({ deployment, isUnderWay }: { deployment: Deployment; isUnderWay: boolean }) {
  const [now, setNow] = useState(serverTime);
  useEffect(() => {
    if (!isUnderWay) return;
    const timer = setInterval(() => setNow(serverTime()), 1_000);
    return () => clearInterval(timer);
  }, [isUnderWay]);
  return lasting(tookMs(deployment, isUnderWay, now));
}
