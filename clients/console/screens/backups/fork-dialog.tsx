import { useMutation, useQueries, useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import type { AddonCapabilities, CreateServiceRequest } from "../../../typescript/src/index.ts";
import { AddonInputs, addonConfigOf } from "../../design/addon-inputs.tsx";
import { Dialog } from "../../design/dialog.tsx";
import { Alert, Field, Form, NameInput } from "../../design/form.tsx";
import { Loading } from "../../design/state.tsx";
import { useAddonCapabilities } from "../../live/addon-capabilities.ts";
import { berth } from "../../session/api.ts";
import { texts } from "../../texts.ts";
import { fromLocal, toLocal } from "./moment.ts";
import { MomentInput } from "./moment-input.tsx";

/** Environments of so many projects can be chosen, the newest: each takes a request. */
const MOST_PROJECTS = 30;

type ForkDialogProps = {
  title: string;
  accountId: string;
  /** Whose data the new addon begins with. */
  from: NonNullable<CreateServiceRequest["from"]>;
  /** The oldest moment, where the user names one of it. */
  oldest?: string;
  type: "postgres" | "redis";
  /** What can be chosen, where the addon is there whose data it is. */
  capabilities?: AddonCapabilities;
  /** Its proposed name. */
  name: string;
  /** Where it is proposed to be. */
  environmentId?: string;
  onClose: () => void;
};

/** Makes an addon with the data of another one or of a backup, in an environment of the account, and goes there. */
export function ForkDialog(props: ForkDialogProps) {
  const { title, accountId, from, oldest, type, capabilities, name, environmentId, onClose } = props;
  const navigate = useNavigate();
  const projects = useQuery({
    queryKey: ["fork-projects", accountId],
    queryFn: () => berth.projects.list({ accountId }, { limit: MOST_PROJECTS }).page(),
    staleTime: 0,
  });
  const environments = useQueries({
    queries: (projects.data?.data ?? []).map(({ id: projectId }) => ({
      queryKey: ["environments", projectId],
      queryFn: () => berth.environments.list({ accountId, projectId }, { limit: 100 }).all(100),
    })),
  });
  const [local, setLocal] = useState(() => toLocal(Date.now()));
  const [chosen, setChosen] = useState(environmentId);
  const all = environments.flatMap(({ data }) => data ?? []);
  const target = all.find(({ id }) => id === chosen) ?? all[0];
  const at = target && { accountId, projectId: target.projectId, environmentId: target.id };
  const known = useAddonCapabilities(capabilities ? undefined : at, type);
  const create = useMutation({
    mutationFn: (fields: FormData) => {
      if (!at) throw new Error(texts.backups.nowhere);
      return berth.services
        .create(at, {
          ...{ name: String(fields.get("name")), type },
          from: { ...from, ...(oldest && { at: fromLocal(local) }) },
          ...addonConfigOf(fields),
        })
        .then(({ name: service }) => ({ ...at, service }));
    },
    onSuccess: (params) => {
      onClose();
      return navigate({
        to: "/accounts/$accountId/projects/$projectId/environments/$environmentId/services/$service/backups",
        params,
      });
    },
  });
  const failed = projects.error ?? environments.find(({ error }) => error)?.error;
  const isReading = projects.isPending || environments.some(({ isPending }) => isPending);
  return (
    <Dialog title={title} onClose={onClose}>
      {isReading && <Loading />}
      {failed && <Alert error={failed} />}
      {!isReading && !failed && (
        <Form onSubmit={create.mutate} error={create.error} isBusy={create.isPending} submit={texts.create}>
          <p>{oldest ? texts.backups.forkMomentHint : texts.backups.forkHint}</p>
          {oldest && <MomentInput oldest={oldest} local={local} onChange={setLocal} />}
          <NameInput proposed={name} />
          <Field label={texts.backups.environment}>
            {(id) => (
              <select id={id} value={target?.id} onChange={({ target }) => setChosen(target.value)}>
                {projects.data?.data.map((project, at) => (
                  <optgroup key={project.id} label={project.name}>
                    {environments[at]?.data?.map((environment) => (
                      <option key={environment.id} value={environment.id}>
                        {environment.name}
                      </option>
                    ))}
                  </optgroup>
                ))}
              </select>
            )}
          </Field>
          <AddonInputs
            capabilities={capabilities ?? known}
            storageHint={from.service ? texts.addons.forkStorageHint : texts.addons.storageHint}
          />
        </Form>
      )}
    </Dialog>
  );
}
