import { afterAll, expect } from "vitest";
import { undocumentedAnswers } from "./watch-answers.ts";

// Set up for each test file: if the API answers a test with anything that gateway/openapi.json does not document, the
// file fails.
afterAll(async () => {
  expect(await undocumentedAnswers(), "answers that gateway/openapi.json does not know").toEqual([]);
});
