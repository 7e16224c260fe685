import { useMutation } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import type { CreateServiceRequest } from "../../../typescript/src/index.ts";
import { AddonInputs, addonConfigOf } from "../../design/addon-inputs.tsx";
import { Dialog } from "../../design/dialog.tsx";
import { Field, Form, Input, NameInput } from "../../design/form.tsx";
import { useAddonCapabilities } from "../../live/addon-capabilities.ts";
import { useEnvironmentAddress } from "../../session/address.ts";
import { berth } from "../../session/api.ts";
import { texts } from "../../texts.ts";
import { ScheduleInputs } from "./schedule-inputs.tsx";

type Type = CreateServiceRequest["type"];
type Source = keyof typeof texts.environment.sources;

const entriesOf = <T extends object>(object: T) => Object.entries(object) as [keyof T & string, string][];

/** Creates a service or an addon. A source is deployed at once, in a second step that is shown where it fails. */
export function NewService({ onClose }: { onClose: () => void }) {
  const at = useEnvironmentAddress();
  const navigate = useNavigate();
  const [type, setType] = useState<Type>("web");
  const [source, setSource] = useState<Source>("image");
  const isApp = type !== "postgres" && type !== "redis";
  const capabilities = useAddonCapabilities(isApp ? undefined : at, type);
  const create = useMutation({
    mutationFn: async (request: CreateServiceRequest) => {
      const { name } = await berth.services.create(at, request);
      const deploys = request.source && berth.deployments.deploy({ ...at, service: name });
      // The service is there even where its first deployment is refused: the dialog of its screen then says why.
      const isRefused = await Promise.resolve(deploys).then(
        () => false,
        () => true,
      );
      return { name, isRefused };
    },
    onSuccess: ({ name, isRefused }) =>
      navigate({
        to: "/accounts/$accountId/projects/$projectId/environments/$environmentId/services/$service",
        params: { ...at, service: name },
        search: isRefused ? { deploy: true } : isApp && source === "archive" ? { upload: true } : {},
      }),
  });
  return (
    <Dialog title={texts.environment.create} onClose={onClose}>
      <Form
        onSubmit={(fields) => create.mutate(requestOf(fields, type, isApp ? source : "none"))}
        error={create.error}
        isBusy={create.isPending}
        submit={texts.create}
      >
        <NameInput />
        <Field label={texts.environment.type}>
          {(id) => (
            <select id={id} value={type} onChange={({ target }) => setType(target.value as Type)}>
              {entriesOf(texts.types).map(([value, label]) => (
                <option key={value} value={value}>
                  {label}
                </option>
              ))}
            </select>
          )}
        </Field>
        {isApp && (
          <Field label={texts.environment.source}>
            {(id) => (
              <select id={id} value={source} onChange={({ target }) => setSource(target.value as Source)}>
                {entriesOf(texts.environment.sources).map(([value, label]) => (
                  <option key={value} value={value}>
                    {label}
                  </option>
                ))}
              </select>
            )}
          </Field>
        )}
        {isApp && source === "image" && (
          <Input label={texts.environment.image} hint={texts.environment.imageHint} name="image" required />
        )}
        {isApp && source === "git" && (
          <>
            <Input
              label={texts.environment.repository}
              hint={texts.environment.repositoryHint}
              name="repository"
              required
            />
            <Input label={texts.environment.branch} name="branch" required defaultValue="main" />
          </>
        )}
        {isApp && source === "archive" && <p className="hint">{texts.environment.archiveHint}</p>}
        {type === "web" && (
          <Input
            label={texts.environment.port}
            name="port"
            type="number"
            min={1}
            max={65_535}
            placeholder="8080"
          />
        )}
        {type === "cron" && <ScheduleInputs />}
        {!isApp && (
          <AddonInputs key={type} capabilities={capabilities} storageHint={texts.addons.storageHint} />
        )}
      </Form>
    </Dialog>
  );
}

function requestOf(fields: FormData, type: Type, from: Source): CreateServiceRequest {
  const text = (name: string) => String(fields.get(name) ?? "").trim();
  const port = text("port");
  const source =
    from === "image"
      ? { image: text("image") }
      : from === "git"
        ? { git: { repository: text("repository"), branch: text("branch") } }
        : undefined;
  return {
    name: text("name"),
    type,
    ...(source && { source }),
    ...(port !== "" && { config: { port: Number(port) } }),
    ...addonConfigOf(fields),
    ...(type === "cron" && { config: { schedule: text("schedule"), timeZone: text("timeZone") } }),
  };
}
