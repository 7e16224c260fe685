import { describe, expect, test } from "vitest";
import type { BuildPlan, DetectionInput } from "./build-plan.ts";
import { detectRuntime } from "./detect.ts";
import { failureOf, treeOf } from "./testing.ts";

type Files = Record<string, string | object>;

const detect = (files: Files, input: Partial<DetectionInput> = {}): BuildPlan =>
  detectRuntime(treeOf(files), { type: "web", hasTool: () => true, ...input });
const problemOf = (files: Files, input: Partial<DetectionInput> = {}) =>
  failureOf(() => detect(files, input));
const stepsOf = (plan: BuildPlan) => plan.steps.map((step) => step.run.join(" "));
const pkg = (content: object, more: Files = {}): Files => ({ "package.json": content, ...more });

describe("a Node.js app", () => {
  test("starts by the main file that its build makes", () => {
    const built = { main: "dist/index.js", scripts: { build: "tsc" }, devDependencies: { typescript: "5" } };
    expect(detect(pkg(built, { "src/index.ts": "" })).command).toBe("node dist/index.js");
    expect(detect(pkg({}, { "src/index.ts": "" })).command).toBe("node src/index.ts");
    expect(detect(pkg({ main: "../../etc/passwd.js" }, { "app.mjs": "" })).command).toBe("node app.mjs");
  });

  test("keeps the development dependencies that its start command runs", () => {
    const of = (start: string) =>
      stepsOf(
        detect(pkg({ scripts: { start }, dependencies: { express: "5" }, devDependencies: { tsx: "4" } })),
      )[0];
    expect(of("tsx src/index.ts")).toContain("--include=dev");
    expect(of("node --import tsx src/index.ts")).toContain("--include=dev");
    expect(of("node index.js")).toContain("--omit=dev");
  });

  test("is started for production where its start script is for development", () => {
    const nest = { start: "nest start", "start:prod": "node dist/main", build: "nest build" };
    expect(detect(pkg({ scripts: nest })).command).toBe("node dist/main");
    const next = { scripts: { build: "next build", start: "next dev" }, dependencies: { next: "16" } };
    expect(detect(pkg(next)).command).toBe("next start");
    expect(detect(pkg({ scripts: { start: "vite-node server.ts" } })).command).toBe("vite-node server.ts");
  });

  test("in TypeScript without a build is started by tsx, if it has it", () => {
    const source = { "src/index.ts": 'import "./app.js";', "src/app.ts": "" };
    const plan = detect(pkg({ devDependencies: { tsx: "4" } }, source));
    expect(plan.command).toBe("tsx src/index.ts");
    expect(stepsOf(plan)[0]).toContain("--include=dev");
    expect(detect(pkg({ devDependencies: { tsx: "4" } }, { "index.js": "" })).command).toBe("node index.js");
  });

  test.each([
    [
      "pnpm-lock.yaml",
      "lockfileVersion: '9.0'\n",
      "pnpm@10",
      "pnpm install --frozen-lockfile --prod=false",
      "pnpm run build",
    ],
    [
      "pnpm-lock.yaml",
      "lockfileVersion: '6.0'\n",
      "pnpm@8",
      "pnpm install --frozen-lockfile --prod=false",
      "pnpm run build",
    ],
    [
      "yarn.lock",
      "# yarn lockfile v1\n",
      "yarn@1",
      "yarn install --non-interactive --production=false --frozen-lockfile",
      "yarn run build",
    ],
    [
      "yarn.lock",
      "__metadata:\n  version: 8\n",
      "@yarnpkg/cli-dist@4",
      "env YARN_NODE_LINKER=node-modules yarn install --immutable",
      "env YARN_NODE_LINKER=node-modules yarn run build",
    ],
    ["bun.lock", "{}", "bun@1", "bun install --frozen-lockfile", "bun run build"],
  ])("with a %s (%s) is installed by %s", (lock, content, spec, install, build) => {
    const scripts = { build: "tsc", start: "node ." };
    const plan = detect(pkg({ scripts, dependencies: { a: "1" } }, { [lock]: content }));
    expect(stepsOf(plan)).toEqual([expect.stringContaining(spec), install, build]);
    expect(plan.steps[0]!.run.at(-1)).toBe(spec);
    expect(plan.path).toContain(".berth-tools/node_modules/.bin");
  });

  test("is installed by the version of the manager that it names", () => {
    const named = { packageManager: "pnpm@9.15.0+sha512.abc", scripts: { start: "node ." } };
    const dependencies = { a: "1" };
    expect(stepsOf(detect(pkg({ ...named, dependencies })))[0]).toMatch(/ pnpm@9\.15\.0$/);
    // A text that is no version reaches no command.
    const odd = { ...named, packageManager: "pnpm@1; rm -rf /", dependencies };
    expect(stepsOf(detect(pkg(odd)))[0]).toMatch(/ pnpm@1$/);
  });
});

describe("a site that a build makes", () => {
  const site = (dependencies: object, scripts: object = {}, more: Files = {}) =>
    detect(pkg({ scripts: { build: "build", ...scripts }, devDependencies: dependencies }, more));

  test.each([
    [{ vite: "7" }, {}, "dist", true],
    [{ vite: "7" }, { start: "vite" }, "dist", true],
    [{ vite: "7" }, { start: "vite preview --port 80" }, "dist", true],
    [{ "react-scripts": "5" }, { start: "react-scripts start" }, "build", true],
    [{ astro: "5" }, { start: "astro dev" }, "dist", false],
    [{ gatsby: "5" }, { start: "gatsby develop" }, "public", false],
    [{ "@docusaurus/core": "3" }, { start: "docusaurus start" }, "build", false],
    [{ "@sveltejs/kit": "2", "@sveltejs/adapter-static": "3", vite: "7" }, {}, "build", true],
  ])("of %o with the scripts %o is served from %s", (dependencies, scripts, folder, fallback) => {
    const plan = site(dependencies, scripts);
    expect(plan).toMatchObject({ runtime: "static", site: folder });
    expect(plan.command!.includes("--fallback")).toBe(fallback);
    expect(plan.steps.at(-1)).toMatchObject({ run: ["ls", `${folder}/index.html`] });
    expect(plan.steps.at(-1)!.message).toContain("config.outputDirectory");
  });

  test("of Next.js is served where its settings export one", () => {
    const next = { next: "16" };
    const exported = { "next.config.mjs": "export default { output: 'export' };" };
    expect(site(next, { start: "next start" }, exported)).toMatchObject({ site: "out" });
    expect(site(next, { start: "next start" })).toMatchObject({ runtime: "node", command: "next start" });
  });

  test("is a process where the framework renders on the server", () => {
    expect(site({ astro: "5", "@astrojs/node": "9" }).command).toContain("dist/server/entry.mjs");
    expect(site({ "@sveltejs/kit": "2", "@sveltejs/adapter-node": "5" }).command).toBe("node build");
    expect(site({ nuxt: "4" }).command).toBe("node .output/server/index.mjs");
    const [code, message] = problemOf(
      pkg({ scripts: { build: "vite build" }, devDependencies: { "@sveltejs/kit": "2" } }),
    );
    expect([code, message]).toEqual(["start_command_missing", expect.stringContaining("adapter-node")]);
  });

  describe("of Angular", () => {
    const angular = (options: object, more: object = {}, name = "shop") => ({
      "angular.json": {
        projects: {
          shop: {
            projectType: "application",
            architect: { build: { builder: "@angular/build:application", options, ...more } },
          },
          widgets: { projectType: "library" },
        },
      },
      "package.json": {
        name,
        scripts: { start: "ng serve", build: "ng build" },
        dependencies: { "@angular/core": "22" },
      },
    });

    test.each([
      [{}, {}, "dist/shop/browser"],
      [{ outputPath: "dist" }, {}, "dist/browser"],
      [{ outputPath: { base: "dist/web", browser: "" } }, {}, "dist/web"],
      [{ outputPath: "dist/shop" }, { builder: "@angular-devkit/build-angular:browser" }, "dist/shop"],
      [{ ssr: { entry: "src/server.ts" }, outputMode: "static" }, {}, "dist/shop/browser"],
    ])("with the options %o %o is served from the folder of its pages", (options, more, folder) => {
      const plan = detect(angular(options, more));
      expect(plan).toMatchObject({ runtime: "static", site: folder });
      expect(plan.because).toContain("an Angular site");
      expect(plan.command).toContain("--fallback");
    });

    test("is a process where it renders on the server, and never the server for development", () => {
      const rendered = angular({ ssr: { entry: "src/server.ts" }, outputMode: "server" });
      expect(detect(rendered).command).toMatch(
        /^NG_ALLOWED_HOSTS=".*:-\*}" node dist\/shop\/server\/server\.mjs$/,
      );
      const own = angular({});
      own["package.json"].scripts.start = "node server.js";
      expect(detect(own).command).toBe("node server.js");
    });
  });

  test("is served from the folder that the service names, also where no language is known", () => {
    const outputDirectory = "public/site";
    expect(detect(pkg({ scripts: { build: "x", start: "y" } }), { outputDirectory })).toMatchObject({
      site: outputDirectory,
    });
    const hugo = { "config.toml": "" };
    const plan = detect(hugo, { outputDirectory, buildCommand: "hugo" });
    expect([plan.site, stepsOf(plan)]).toEqual([
      outputDirectory,
      ["sh -c hugo", `ls ${outputDirectory}/index.html`],
    ]);
    expect(detect({ "site/index.html": "" }, { outputDirectory: "site" }).site).toBe("site");
    expect(problemOf(hugo, { outputDirectory })[0]).toBe("runtime_not_detected");
  });

  test("with a package.json for its tools only says how its pages are served as they are", () => {
    const site = pkg({ devDependencies: { prettier: "3" } }, { "index.html": "" });
    const [code, message] = problemOf(site);
    expect([code, message]).toEqual([
      "start_command_missing",
      expect.stringContaining("config.outputDirectory to “.”"),
    ]);
    const served = detect(site, { outputDirectory: "." });
    expect([served.site, served.command]).toEqual([".", "node ../static-server.mts . --fallback"]);
    expect(problemOf(site, { type: "worker" })[1]).not.toContain("index.html as it is");
  });

  test("is no site for a worker", () => {
    const worker = pkg({ scripts: { build: "vite build" }, devDependencies: { vite: "7" } });
    expect(problemOf(worker, { type: "worker" })[0]).toBe("start_command_missing");
  });
});

describe("a workspace", () => {
  const workspace = (root: object = {}, more: Files = {}): Files => ({
    "package.json": { workspaces: ["packages/*", "apps/**", "!apps/old"], ...root },
    "packages/lib/package.json": { name: "@x/lib", scripts: { build: "tsc" } },
    "packages/unused/package.json": { name: "@x/unused", scripts: { build: "tsc" } },
    "apps/web/package.json": {
      name: "@x/web",
      scripts: { build: "vite build", start: "node server.js" },
      dependencies: { "@x/lib": "*" },
    },
    "apps/deep/api/package.json": { name: "@x/api", scripts: { start: "node ." } },
    "apps/old/package.json": { name: "@x/old", scripts: { start: "node ." } },
    ...more,
  });

  test("without a package that is named says which can be run", () => {
    const site = {
      name: "@x/site",
      scripts: { dev: "vite", build: "vite build" },
      devDependencies: { vite: "7" },
    };
    const [code, message] = problemOf(workspace({}, { "apps/site/package.json": site }));
    expect(code).toBe("start_command_missing");
    expect(message).toContain(": apps/deep/api, apps/site, apps/web.");
    expect(message).not.toContain("apps/old");
    expect(message).toContain("config.rootDirectory");
  });

  test("is installed as a whole, and what the package needs is built first", () => {
    const plan = detect(workspace(), { rootDirectory: "apps/web" });
    expect(stepsOf(plan).slice(1)).toEqual([
      "npm --prefix packages/lib run build",
      "npm --prefix apps/web run build",
    ]);
    expect(plan.command).toBe("cd apps/web && exec node server.js");
    expect(plan.path).toEqual(["apps/web/node_modules/.bin", "node_modules/.bin"]);
  });

  test("is built by turbo where the root has it, and by pnpm where its file says the packages", () => {
    const turbo = workspace({ devDependencies: { turbo: "2" } }, { "turbo.json": "{}" });
    expect(stepsOf(detect(turbo, { rootDirectory: "apps/web" })).at(-1)).toBe(
      "turbo run build --filter=@x/web",
    );
    const { "package.json": _, ...rest } = workspace();
    const pnpm = {
      ...rest,
      "package.json": {},
      "pnpm-workspace.yaml": "packages:\n  - 'packages/*'\n  - \"apps/web\" # the site\n",
      "pnpm-lock.yaml": "lockfileVersion: '9.0'",
    };
    const { "pnpm-lock.yaml": __, ...unlocked } = pnpm;
    expect(stepsOf(detect(unlocked, { rootDirectory: "apps/web" }))[1]).toMatch(/^pnpm install --no-frozen/);
    expect(stepsOf(detect(pnpm, { rootDirectory: "apps/web" })).slice(2)).toEqual([
      "pnpm --dir packages/lib run build",
      "pnpm --dir apps/web run build",
    ]);
  });

  test("of more folders than any has is refused, however its patterns name them", () => {
    const folders = Array.from({ length: 100 }, (_, index) => [`f${index}/package.json`, {}]);
    for (const workspaces of [Array(100).fill("*"), Array(10_000).fill("a"), Array(2_000).fill("**/**/**")]) {
      const files = { ...Object.fromEntries(folders), "package.json": { workspaces } };
      expect(problemOf(files)).toEqual(["source_invalid", expect.stringContaining("5000 folders")]);
    }
  });

  test("packages that need each other, and patterns that lead outside, end", () => {
    const circle = {
      "package.json": { workspaces: ["a", "b", "../../etc", "**/**/**"] },
      "a/package.json": { name: "a", scripts: { build: "x", start: "y" }, dependencies: { b: "*" } },
      "b/package.json": { name: "b", scripts: { build: "x" }, dependencies: { a: "*" } },
    };
    expect(stepsOf(detect(circle, { rootDirectory: "a" })).slice(1)).toEqual([
      "npm --prefix b run build",
      "npm --prefix a run build",
    ]);
  });
});

describe("a Python app", () => {
  const web = (file: string, text: string, requirements: string, more: Files = {}) =>
    detect({ [file]: text, "requirements.txt": requirements, ...more }).command;

  test.each([
    [
      "main.py",
      "app = FastAPI()",
      "fastapi\nuvicorn[standard]",
      "uvicorn main:app --host 0.0.0.0 --port $PORT",
    ],
    [
      "main.py",
      "api: FastAPI = fastapi.FastAPI(title='x')",
      "fastapi[standard]==0.115",
      "uvicorn main:api --host 0.0.0.0 --port $PORT",
    ],
    [
      "app/main.py",
      "app = FastAPI()",
      "fastapi\nuvicorn",
      "uvicorn app.main:app --host 0.0.0.0 --port $PORT",
    ],
    [
      "src/main.py",
      "app = FastAPI()",
      "fastapi\nuvicorn",
      "uvicorn main:app --app-dir src --host 0.0.0.0 --port $PORT",
    ],
    ["app.py", "app = Flask(__name__)", "Flask\ngunicorn", "gunicorn --bind 0.0.0.0:$PORT app:app"],
    [
      "app.py",
      "from flask import Flask\ndef create_app():\n    return Flask('x')",
      "flask\ngunicorn",
      "gunicorn --bind 0.0.0.0:$PORT 'app:create_app()'",
    ],
    [
      "app.py",
      "app = Flask(__name__)\nif __name__ == '__main__':\n    app.run(port=os.environ['PORT'])",
      "flask",
      "python -u app.py",
    ],
    [
      "app.py",
      "app = Flask(__name__)\nif __name__ == '__main__':\n    app.run(debug=True)",
      "flask",
      "flask --app app:app run --host 0.0.0.0 --port $PORT",
    ],
    [
      "app.py",
      "app = Flask(__name__)\nif __name__ == '__main__':\n    app.run(host='0.0.0.0', port=5000)",
      "flask",
      "flask --app app:app run --host 0.0.0.0 --port $PORT",
    ],
    [
      "app.py",
      "app = Flask(__name__)\nif __name__ == '__main__':\n    app.run(host='0.0.0.0', port=settings.port)",
      "flask",
      "python -u app.py",
    ],
    [
      "app/main.py",
      "def create_app() -> FastAPI:\n    app = FastAPI()\n    return app\n\napp = create_app()",
      "fastapi\nuvicorn",
      "uvicorn app.main:app --host 0.0.0.0 --port $PORT",
    ],
    [
      "main.py",
      "def create_app() -> FastAPI:\n    app = FastAPI()\n    return app",
      "fastapi\nuvicorn",
      "uvicorn main:create_app --factory --host 0.0.0.0 --port $PORT",
    ],
    [
      "wsgi.py",
      "from shop import create_app\napp = create_app()",
      "flask\ngunicorn",
      "gunicorn --bind 0.0.0.0:$PORT wsgi:app",
    ],
    [
      "manage.py",
      "os.environ.setdefault('DJANGO_SETTINGS_MODULE', 'shop.settings')",
      "Django\ngunicorn",
      "gunicorn --bind 0.0.0.0:$PORT shop.wsgi",
    ],
    [
      "streamlit_app.py",
      "import streamlit as st",
      "streamlit",
      "streamlit run streamlit_app.py --server.address 0.0.0.0 --server.port $PORT --server.headless true",
    ],
    ["main.py", "print('no web framework')", "requests", "python -u main.py"],
  ])("in %s with %j and %j starts", (file, text, requirements, command) => {
    expect(web(file, `import x\n${text}\n`, requirements)).toBe(command);
  });

  test.each([
    ["main.py", "app = FastAPI()", "fastapi", "uvicorn"],
    ["app.py", "app = Flask(__name__)", "flask", "gunicorn"],
    ["manage.py", "setdefault('DJANGO_SETTINGS_MODULE', 'shop.settings')", "django", "gunicorn"],
  ])("in %s with %j and %j has to add a server", (file, text, requirements, line) => {
    const [code, message] = problemOf({ [file]: text, "requirements.txt": requirements });
    expect([code, message]).toEqual(["start_command_missing", expect.stringContaining(`“${line}”`)]);
  });

  test("of a pyproject.toml is installed by its lock file, as a package, or by what it depends on", () => {
    const project =
      '[project]\nname = "x"\ndependencies = [\n  "fastapi>=0.1", # web\n  "uvicorn[standard]",\n]\n';
    const start = { "main.py": "app = FastAPI()" };
    const plan = detect({ ...start, "pyproject.toml": project });
    expect(stepsOf(plan).at(-1)).toBe(
      ".venv/bin/python -m pip install --no-input --progress-bar off fastapi>=0.1 uvicorn[standard]",
    );
    expect(plan.command).toContain("uvicorn main:app");
    const built = `${project}[build-system]\nrequires = ["hatchling"]\n`;
    expect(stepsOf(detect({ ...start, "pyproject.toml": built })).at(-1)).toMatch(/ \.$/);
    expect(stepsOf(detect({ ...start, "pyproject.toml": project, "uv.lock": "" })).at(-1)).toContain(
      "uv sync --frozen",
    );
  });

  test("of a Pipfile is installed by Pipenv, unless it has a requirements.txt", () => {
    const Pipfile = '[packages]\nflask = "*"\ngunicorn = {version = "*"}\n';
    const files = { "app.py": "app = Flask(__name__)", Pipfile };
    const plan = detect({ ...files, "pyproject.toml": "[tool.black]\n" });
    expect(stepsOf(plan).at(-1)).toMatch(/ -m pipenv install --deploy$/);
    expect(plan.command).toBe("gunicorn --bind 0.0.0.0:$PORT app:app");
    expect(stepsOf(detect({ ...files, "requirements.txt": "flask" })).at(-1)).toMatch(
      / -r requirements\.txt$/,
    );
  });

  test("that is no package is not installed as one: what only Poetry reads is asked of it", () => {
    const start = { "main.py": "app = FastAPI()" };
    const backend = '[build-system]\nrequires = ["poetry-core>=2"]\n';
    const poetry = "[tool.poetry]\npackage-mode = false\n";
    const listed = `[project]\nname = "x"\ndependencies = ["fastapi (>=0.1,<1)", "uvicorn"]\n${poetry}${backend}`;
    expect(stepsOf(detect({ ...start, "pyproject.toml": listed })).at(-1)).toMatch(
      / off fastapi \(>=0\.1,<1\) uvicorn$/,
    );
    const own = `${poetry}[tool.poetry.dependencies]\npython = "^3.11"\nfastapi = "^0.1"\nuvicorn = "*"\n${backend}`;
    const plan = detect({ ...start, "pyproject.toml": own });
    expect(stepsOf(plan).slice(-2)).toEqual([
      expect.stringMatching(/pip install .* --target \.berth-tools\/poetry poetry-core$/),
      expect.stringMatching(/pip install .* -r \.berth-tools\/requirements\.txt$/),
    ]);
    expect(plan.command).toContain("uvicorn main:app");
    // What pip says of a folder that is no package helps nobody.
    const taken = detect({ ...start, "pyproject.toml": `${own}`.replace("package-mode = false", "") });
    expect(taken.steps.at(-1)!.message).toContain("package-mode = false");
  });
});

describe("other commands", () => {
  test("of the service replace those that are detected", () => {
    const commands = { installCommand: "make deps", buildCommand: "make all" };
    expect(stepsOf(detect(pkg({ scripts: { build: "x", start: "y" } }), commands))).toEqual([
      "sh -c make deps",
      "sh -c make all",
    ]);
    expect(stepsOf(detect({ "main.py": "" }, commands)).slice(1)).toEqual([
      "sh -c make deps",
      "sh -c make all",
    ]);
    expect(stepsOf(detect({ "go.mod": "" }, commands))).toEqual(["sh -c make deps", "sh -c make all"]);
    expect(stepsOf(detect({ Procfile: "web: ./run" }, commands))).toEqual([
      "sh -c make deps",
      "sh -c make all",
    ]);
  });

  test("Deno runs the task “start”, or the main file", () => {
    const tasks = detect({ "deno.json": '{"tasks": {"start": "deno run main.ts"}}', "main.ts": "" });
    expect(tasks).toMatchObject({ runtime: "deno", command: "DENO_DIR=.deno deno task start" });
    expect(detect({ "deno.jsonc": "{}", "main.ts": "" }).command).toContain("deno run --allow-all main.ts");
    expect(problemOf({ "deno.json": "{}" })[0]).toBe("start_command_missing");
  });
});
