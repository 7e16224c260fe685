import { useMutation, useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import type {
  Service,
  ServiceAddress,
  ServiceConfig,
  UpdateServiceRequest,
} from "../../../typescript/src/index.ts";
import { MOST_GIB } from "../../design/addon-inputs.tsx";
import { Field, Form, Input } from "../../design/form.tsx";
import { Failure, Loading } from "../../design/state.tsx";
import { useEnvironment, useServiceState } from "../../live/environment.tsx";
import { queries } from "../../live/queries.ts";
import { useMayEdit, useServiceAddress } from "../../session/address.ts";
import { berth } from "../../session/api.ts";
import { texts } from "../../texts.ts";
import { ScheduleInputs } from "../environment/schedule-inputs.tsx";

/** How many and how large, what runs, and the end of it. */
export function Settings() {
  const at = useServiceAddress();
  const mayEdit = useMayEdit();
  const key = ["service", at.environmentId, at.service];
  const service = useQuery({ queryKey: key, queryFn: () => berth.services.get(at) });
  if (service.isPending) return <Loading />;
  if (!service.data) return <Failure error={service.error} retry={() => void service.refetch()} />;
  const isApp = service.data.type !== "postgres" && service.data.type !== "redis";
  return (
    <fieldset className="plain" disabled={!mayEdit}>
      {isApp && <Scale at={at} service={service.data} />}
      {!isApp && <Servers at={at} service={service.data} />}
      {!isApp && <Storage at={at} service={service.data} />}
      {service.data.type === "postgres" && <Pooler at={at} service={service.data} />}
      {!isApp && <Promotion at={at} service={service.data} />}
      {isApp && <SourceAndStart at={at} service={service.data} />}
      {mayEdit && <Delete at={at} service={service.data} />}
    </fieldset>
  );
}

function useUpdate(at: ServiceAddress) {
  return useMutation({
    mutationFn: (change: UpdateServiceRequest) => berth.services.update(at, change),
    // Read again: the answer to a change does not say what the server of an addon is.
    onSuccess: () => queries.invalidateQueries({ queryKey: ["service", at.environmentId, at.service] }),
  });
}

function Saved({ update }: { update: { isSuccess: boolean; data?: Service | undefined } }) {
  if (!update.isSuccess) return null;
  const { saved, savedForDeploy } = texts.settings;
  return <p role="status">{update.data?.pendingChanges ? savedForDeploy : saved}</p>;
}

function Scale({ at, service: { config, type } }: { at: ServiceAddress; service: Service }) {
  const update = useUpdate(at);
  const submit = (fields: FormData) =>
    update.mutate({
      config: {
        ...(fields.has("replicas") && { replicas: Number(fields.get("replicas")) }),
        size: String(fields.get("size")) as NonNullable<ServiceConfig["size"]>,
      },
    });
  return (
    <section>
      <h2>{texts.settings.scale}</h2>
      <Form onSubmit={submit} error={update.error} isBusy={update.isPending} submit={texts.save}>
        {config.autoscaling && <p className="hint">{texts.settings.autoscaled}</p>}
        {!config.autoscaling && type !== "cron" && (
          <Input
            label={texts.settings.replicas}
            name="replicas"
            type="number"
            min={0}
            required
            defaultValue={config.replicas ?? 1}
          />
        )}
        <Field label={texts.settings.size}>
          {(id) => (
            // Unlike those of an input, what a select begins with does not change with what it is given.
            <select key={config.size} id={id} name="size" defaultValue={config.size ?? "nano"}>
              {Object.entries(texts.settings.sizes).map(([value, label]) => (
                <option key={value} value={value}>
                  {label}
                </option>
              ))}
            </select>
          )}
        </Field>
        <Saved update={update} />
      </Form>
    </section>
  );
}

/** How many servers an addon has, of which one takes writes. */
function Servers({ at, service: { capabilities, config } }: { at: ServiceAddress; service: Service }) {
  const update = useUpdate(at);
  const { servers, serversHint, serversSaved } = texts.settings;
  const { maxReplicas = 1, maxReplicasReason } = capabilities ?? {};
  if (maxReplicas === 1 && !maxReplicasReason) return null;
  return (
    <section>
      <h2>{servers}</h2>
      {maxReplicas > 1 ? (
        <Form
          onSubmit={(fields) => update.mutate({ config: { replicas: Number(fields.get("replicas")) } })}
          error={update.error}
          isBusy={update.isPending}
          submit={texts.save}
        >
          <Input
            label={servers}
            hint={serversHint}
            name="replicas"
            type="number"
            min={1}
            max={maxReplicas}
            required
            defaultValue={config.replicas ?? 1}
          />
          {update.isSuccess && <p role="status">{serversSaved}</p>}
        </Form>
      ) : (
        <p className="hint">{maxReplicasReason}</p>
      )}
    </section>
  );
}

const GIB = 1024 ** 3;

/** How large the volume of an addon is, which only grows. */
function Storage({ at, service }: { at: ServiceAddress; service: Service }) {
  const update = useUpdate(at);
  const { capabilities, server, config } = service;
  const { storage, storageHint, storageMax, storageMaxHint, storageSaved } = texts.settings;
  if (!capabilities) return null;
  const least = Math.ceil((server?.storageBytes ?? 0) / GIB) || config.storageGib || 1;
  const submit = (fields: FormData) =>
    update.mutate({
      config: {
        storageGib: Number(fields.get("storageGib")),
        // Without a number it no longer grows by itself.
        ...(capabilities.storageGrows && { storageMaxGib: Number(fields.get("storageMaxGib")) }),
      },
    });
  return (
    <section>
      <h2>{storage}</h2>
      {capabilities.storage ? (
        <Form onSubmit={submit} error={update.error} isBusy={update.isPending} submit={texts.save}>
          <Input
            label={texts.addons.storage}
            hint={storageHint}
            name="storageGib"
            type="number"
            min={least}
            max={MOST_GIB}
            required
            defaultValue={least}
          />
          {capabilities.storageGrows && (
            <Input
              label={storageMax}
              hint={storageMaxHint}
              name="storageMaxGib"
              type="number"
              min={least}
              max={MOST_GIB}
              defaultValue={config.storageMaxGib}
            />
          )}
          {update.isSuccess && <p role="status">{storageSaved}</p>}
        </Form>
      ) : (
        <p className="hint">{capabilities.storageReason}</p>
      )}
    </section>
  );
}

/** Whether an addon has a pooler, through which one of its keys leads. */
function Pooler({ at, service: { capabilities, config } }: { at: ServiceAddress; service: Service }) {
  const update = useUpdate(at);
  const { pooler, poolerHint, poolerOn, poolerOff, poolerSaved } = texts.settings;
  const isOn = config.pooler === true;
  // Also where no more are made, one may be turned off.
  const hasChoice = isOn || capabilities?.pooler;
  if (!hasChoice && !capabilities?.poolerReason) return null;
  return (
    <section>
      <h2>{pooler}</h2>
      {hasChoice ? (
        <Form
          onSubmit={() => update.mutate({ config: { pooler: !isOn } })}
          error={update.error}
          isBusy={update.isPending}
          submit={isOn ? poolerOff : poolerOn}
        >
          <p className="hint">{poolerHint}</p>
          {update.isSuccess && <p role="status">{poolerSaved}</p>}
        </Form>
      ) : (
        <p className="hint">{capabilities?.poolerReason}</p>
      )}
    </section>
  );
}

/** Lets an addon take the name of another one, where there is one of its type. */
function Promotion({ at, service: { name, type } }: { at: ServiceAddress; service: Service }) {
  const navigate = useNavigate();
  const { services = [] } = useEnvironment();
  const { accountId, projectId, environmentId } = at;
  const promote = useMutation({
    mutationFn: (over: string) => berth.services.promote(at, { over }),
    onSuccess: async (promoted) => {
      await queries.invalidateQueries({ queryKey: ["service", environmentId] });
      await navigate({
        to: "/accounts/$accountId/projects/$projectId/environments/$environmentId/services/$service",
        params: { accountId, projectId, environmentId, service: promoted.name },
      });
    },
  });
  const others = services.filter((one) => one.type === type && one.name !== name && !one.staged);
  if (others.length === 0) return null;
  const { promote: title, promoteHint, promoteOver, promoteSubmit } = texts.settings;
  return (
    <section>
      <h2>{title}</h2>
      <p className="hint">{promoteHint}</p>
      <Form
        onSubmit={(fields) => promote.mutate(String(fields.get("over")))}
        error={promote.error}
        isBusy={promote.isPending}
        submit={promoteSubmit}
      >
        <Field label={promoteOver}>
          {(id) => (
            <select id={id} name="over">
              {others.map((one) => (
                <option key={one.id} value={one.name}>
                  {one.name}
                </option>
              ))}
            </select>
          )}
        </Field>
      </Form>
    </section>
  );
}

function SourceAndStart({ at, service }: { at: ServiceAddress; service: Service }) {
  const update = useUpdate(at);
  const { source, config, type } = service;
  const submit = (fields: FormData) => {
    const text = (name: string) => String(fields.get(name) ?? "").trim();
    const [image, repository, branch] = [text("image"), text("repository"), text("branch")];
    const git = source.git && { ...source.git, repository, branch };
    update.mutate({
      source: git ? { git } : { ...(image !== "" && { image }) },
      config: {
        command: text("command"),
        ...(type === "web" && { healthCheckPath: text("healthCheckPath"), public: fields.has("public") }),
        ...(text("port") !== "" && { port: Number(text("port")) }),
        ...(type === "cron" && { schedule: text("schedule"), timeZone: text("timeZone") }),
      },
    });
  };
  return (
    <section>
      <h2>{texts.settings.source}</h2>
      <Form onSubmit={submit} error={update.error} isBusy={update.isPending} submit={texts.save}>
        {source.git ? (
          <>
            <Input
              label={texts.environment.repository}
              name="repository"
              required
              defaultValue={source.git.repository}
            />
            <Input label={texts.environment.branch} name="branch" required defaultValue={source.git.branch} />
          </>
        ) : (
          <Input
            label={texts.environment.image}
            hint={texts.environment.imageHint}
            name="image"
            defaultValue={source.image}
          />
        )}
        <Input label={texts.settings.command} name="command" defaultValue={config.command} />
        {type === "cron" && <ScheduleInputs schedule={config.schedule} timeZone={config.timeZone} />}
        {type === "web" && (
          <>
            <Input
              label={texts.settings.port}
              name="port"
              type="number"
              min={1}
              max={65_535}
              defaultValue={config.port ?? 8080}
            />
            <Input
              label={texts.settings.health}
              name="healthCheckPath"
              defaultValue={config.healthCheckPath}
            />
            <label className="check">
              <input type="checkbox" name="public" defaultChecked={config.public ?? true} />
              {texts.settings.public}
            </label>
            <p className="hint">{texts.settings.publicHint}</p>
          </>
        )}
        <Saved update={update} />
      </Form>
    </section>
  );
}

function Delete({ at, service: { name } }: { at: ServiceAddress; service: Service }) {
  const navigate = useNavigate();
  const [typed, setTyped] = useState("");
  const state = useServiceState(at.service);
  const isLive = (state?.replicas.available ?? 0) > 0 || state?.release !== undefined;
  const { accountId, projectId, environmentId } = at;
  const remove = useMutation({
    mutationFn: () => berth.services.delete(at, { confirmImpact: true }),
    onSuccess: () =>
      navigate({
        to: "/accounts/$accountId/projects/$projectId/environments/$environmentId",
        params: { accountId, projectId, environmentId },
      }),
  });
  return (
    <section>
      <h2>{texts.settings.deleteTitle}</h2>
      <p>{texts.settings.deleteHint}</p>
      {isLive && <p className="note">{texts.settings.impact}</p>}
      {(state?.type === "postgres" || state?.type === "redis") && (
        <p className="note">
          {texts.settings.variables} {texts.settings.backups}
        </p>
      )}
      <Form
        onSubmit={() => typed === name && remove.mutate()}
        error={remove.error}
        isBusy={remove.isPending}
        submit={texts.settings.deleteButton(name)}
        dangerous
      >
        <Input
          label={texts.settings.typeName(name)}
          required
          // The whole name, whose characters mean nothing in a pattern.
          pattern={name}
          value={typed}
          onChange={({ target }) => setTyped(target.value)}
        />
      </Form>
    </section>
  );
}
