import type { SourceTree } from "./build-plan.ts";

export type PythonStart = { command: string } | { problem: string };

/** Where apps usually are; a module's name is its path with dots. */
const MODULES = ["main.py", "app.py", "wsgi.py", "asgi.py", "server.py", "api.py"];
const FOLDERS = ["", "app/", "api/", "src/"];

const FRAMEWORKS = ["FastAPI", "Starlette", "Litestar", "Quart", "Flask"];
const CALL = /\b(FastAPI|Starlette|Litestar|Quart|Flask)\(/;
const MADE = /^(?:\w+\.)?(FastAPI|Starlette|Litestar|Quart|Flask)\(/;
/** A call of a factory, which may be of another module. */
const MADE_BY_FACTORY = /^(?:\w+\.)?(?:create|make|build|init)_(?:\w+_)?app\(/;
const FACTORY = /^def (create_app|make_app)\(/m;

/**
 * Returns the command that serves a FastAPI, Starlette, Litestar, Quart, Flask, Django or Streamlit app by the server that the
 * project installs, or what has to be added; undefined for other apps.
 */
export function findPythonStart(tree: SourceTree, packages: Set<string>): PythonStart | undefined {
  return startDjango(tree, packages) ?? startByObject(tree, packages) ?? startStreamlit(tree, packages);
}

const has = (packages: Set<string>, name: string) =>
  [...packages].some((one) => one === name || one.startsWith(`${name}[`));

function startDjango(tree: SourceTree, packages: Set<string>): PythonStart | undefined {
  const manage = tree.read("manage.py");
  const [, project] = /DJANGO_SETTINGS_MODULE['"]\s*,\s*['"]([\w.]+?)\.settings/.exec(manage ?? "") ?? [];
  if (project === undefined) return undefined;
  if (has(packages, "gunicorn")) return { command: `gunicorn --bind 0.0.0.0:$PORT ${project}.wsgi` };
  if (has(packages, "uvicorn"))
    return { command: `uvicorn ${project}.asgi:application --host 0.0.0.0 --port $PORT` };
  if (has(packages, "waitress"))
    return { command: `waitress-serve --listen=0.0.0.0:$PORT ${project}.wsgi:application` };
  return serverMissing("Django", "gunicorn");
}

/** Such an app is a script, which only its own server runs. */
function startStreamlit(tree: SourceTree, packages: Set<string>): PythonStart | undefined {
  if (!has(packages, "streamlit")) return undefined;
  const file = ["streamlit_app.py", "app.py", "main.py"].find((one) =>
    /^[ \t]*(import|from)[ \t]+streamlit\b/m.test(tree.read(one) ?? ""),
  );
  if (file === undefined) return undefined;
  return {
    command: `streamlit run ${file} --server.address 0.0.0.0 --server.port $PORT --server.headless true`,
  };
}

function startByObject(tree: SourceTree, packages: Set<string>): PythonStart | undefined {
  for (const folder of FOLDERS)
    for (const file of MODULES) {
      const text = tree.read(`${folder}${file}`);
      if (text === undefined) continue;
      const found = findObject(text);
      const factory = found === undefined ? FACTORY.exec(text)?.[1] : undefined;
      const object = found?.object ?? factory;
      const framework =
        found?.framework ??
        CALL.exec(text)?.[1] ??
        (found && FRAMEWORKS.find((one) => has(packages, one.toLowerCase())));
      if (object === undefined || framework === undefined) continue;
      // Python finds what is in src by its own name.
      const module = `${folder === "src/" ? "" : folder.replace("/", ".")}${file.replace(/\.py$/, "")}`;
      const from = folder === "src/" ? "src" : undefined;
      const app = { module, object, from, isFactory: factory !== undefined };
      return framework === "Flask" ? startFlask(app, text, packages) : startAsgi(app, framework, packages);
    }
  return undefined;
}

/** Returns the first variable of a module that is an app, `app: FastAPI = FastAPI(`, or what a factory returns. */
function findObject(text: string): { object: string; framework?: string } | undefined {
  for (const line of text.split("\n")) {
    const at = line.indexOf("=");
    const value = at < 0 ? "" : line.slice(at + 1).trim();
    const framework = MADE.exec(value)?.[1];
    const object = line.slice(0, at).split(":")[0]!.trimEnd();
    if ((framework !== undefined || MADE_BY_FACTORY.test(value)) && /^\w+$/.test(object))
      return { object, framework };
  }
  return undefined;
}

type AppObject = { module: string; object: string; from: string | undefined; isFactory: boolean };

function startAsgi(
  { module, object, from, isFactory }: AppObject,
  framework: string,
  packages: Set<string>,
): PythonStart {
  const name = `${module}:${object}`;
  const bringsUvicorn = [...packages].some((one) => /^fastapi\[.*\b(standard|all)\b/.test(one));
  if (has(packages, "uvicorn") || bringsUvicorn) {
    const options = `${isFactory ? " --factory" : ""}${from === undefined ? "" : ` --app-dir ${from}`}`;
    return { command: `uvicorn ${name}${options} --host 0.0.0.0 --port $PORT` };
  }
  if (has(packages, "hypercorn") && from === undefined)
    return { command: `hypercorn --bind 0.0.0.0:$PORT ${isFactory ? `'${name}()'` : name}` };
  return serverMissing(framework, "uvicorn");
}

function startFlask(
  { module, object, from, isFactory }: AppObject,
  text: string,
  packages: Set<string>,
): PythonStart | undefined {
  const name = isFactory ? `'${module}:${object}()'` : `${module}:${object}`;
  if (has(packages, "gunicorn")) {
    const folder = from === undefined ? "" : ` --chdir ${from}`;
    return { command: `gunicorn${folder} --bind 0.0.0.0:$PORT ${name}` };
  }
  if (has(packages, "waitress") && !isFactory && from === undefined)
    return { command: `waitress-serve --listen=0.0.0.0:$PORT ${name}` };
  if (!/\.run\(/.test(text)) return serverMissing("Flask", "gunicorn");
  // It serves itself, with the server for development: where it is told, or else at a port of its own choice.
  if (/\bPORT\b/.test(text) || runsAtGivenPort(text)) return undefined;
  const path = from === undefined ? "" : `${from}/`;
  return { command: `flask --app ${path}${module}:${object} run --host 0.0.0.0 --port $PORT` };
}

/** Whether an app runs itself at a port that is no number: it may come from anywhere. */
function runsAtGivenPort(text: string): boolean {
  const calls = text.split(".run(").slice(1);
  return calls.some((call) => /\bport\s{0,9}=\s{0,9}[^\d\s]/.test(call.slice(0, 300).split(")")[0]!));
}

function serverMissing(framework: string, server: string): PythonStart {
  return {
    problem: `This is a ${framework} app without a server that is known. Add the line “${server}” to its requirements.txt (or to the dependencies in pyproject.toml), or set the service's start command.`,
  };
}
