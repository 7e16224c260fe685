import { expect, test } from "vitest";
import { excerptCrash } from "./crash-excerpt.ts";

const excerptOf = (text: string) => excerptCrash(text.split("\n")).join("\n");

test("of Node.js: the error and the app's own frames", () => {
  const text = `listening soon
/tmp/x/artifacts/bld_1/app/src/db.js:3
  throw new Error("no DATABASE_URL");
  ^

Error: no DATABASE_URL
    at connect (/tmp/x/artifacts/bld_1/app/src/db.js:3:9)
    at Layer.handle (/tmp/x/artifacts/bld_1/app/node_modules/express/lib/layer.js:5:3)
    at Object.<anonymous> (file:///srv/app/server.mjs:9:1)
    at Module._compile (node:internal/modules/cjs/loader:1554:14)
    at node:internal/main/run_main_module:36:49

Node.js v24.18.1`;
  expect(excerptOf(text)).toBe(
    "Error: no DATABASE_URL\n    at connect (src/db.js:3:9)\n    at Object.<anonymous> (server.mjs:9:1)",
  );
});

test("of Node.js, of syntax and of a missing module: the place that it names", () => {
  const syntax = `/srv/app/server.js:7
const a = ;
          ^

SyntaxError: Unexpected token ';'
    at wrapSafe (node:internal/modules/cjs/loader:1469:18)
    at Module._compile (node:internal/modules/cjs/loader:1491:20)

Node.js v24.18.1`;
  expect(excerptOf(syntax)).toBe("SyntaxError: Unexpected token ';'\n    at server.js:7\n    const a = ;");
  const missing = `node:internal/modules/cjs/loader:1228
  throw err;
  ^

Error: Cannot find module 'expres'
Require stack:
- /srv/app/server.js
    at Module._resolveFilename (node:internal/modules/cjs/loader:1225:15)
    at require (node:internal/modules/helpers:182:18) {
  code: 'MODULE_NOT_FOUND',
  requireStack: [ '/srv/app/server.js' ]
}`;
  expect(excerptOf(missing)).toBe("Error: Cannot find module 'expres'\nRequire stack:\n- server.js");
});

test("of Python: the last error, and where it was raised in the app, nearest first", () => {
  const text = `Traceback (most recent call last):
  File "/srv/app/.venv/bin/uvicorn", line 8, in <module>
    sys.exit(main())
  File "/srv/app/.venv/lib/python3.11/site-packages/click/core.py", line 1130, in __call__
    return self.main(*args, **kwargs)
  File "<frozen importlib._bootstrap>", line 241, in _call_with_frames_removed
  File "/srv/app/main.py", line 4, in <module>
    settings = load()
               ^^^^^^
  File "/srv/app/settings.py", line 2, in load
    return os.environ["DATABASE_URL"]
KeyError: 'DATABASE_URL'
stopping`;
  expect(excerptOf(text)).toBe(`KeyError: 'DATABASE_URL'
  File "settings.py", line 2, in load
    return os.environ["DATABASE_URL"]
  File "main.py", line 4, in <module>
    settings = load()
  File ".venv/bin/uvicorn", line 8, in <module>
    sys.exit(main())`);
});

test("of Go, Java and Ruby", () => {
  const go = `panic: runtime error: index out of range [3] with length 2

goroutine 1 [running]:
main.pick(...)
\t/srv/app/main.go:7
main.main()
\t/srv/app/main.go:12 +0x1d
exit status 2`;
  expect(excerptOf(go)).toBe(
    "panic: runtime error: index out of range [3] with length 2\n\tmain.go:7\n\tmain.go:12 +0x1d",
  );
  const java = `Exception in thread "main" java.lang.IllegalStateException: no port
\tat shop.Main.main(Main.java:5)`;
  expect(excerptOf(java)).toBe(java);
  const ruby = `app.rb:3:in 'load': no settings (RuntimeError)
\tfrom /usr/lib/ruby/gems/rack/x.rb:1:in 'call'
\tfrom app.rb:9:in '<main>'`;
  expect(excerptOf(ruby)).toBe("app.rb:3:in 'load': no settings (RuntimeError)\n\tfrom app.rb:9:in '<main>'");
});

test("of output that is none of these: its last lines", () => {
  const lines = Array.from({ length: 30 }, (_, index) => `line ${index}`);
  expect(excerptCrash(lines)).toEqual(lines.slice(-10));
  expect(excerptCrash(["TypeError without frames", "x"])).toEqual(["TypeError without frames", "x"]);
  expect(excerptCrash([])).toEqual([]);
});
