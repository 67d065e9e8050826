// Package action carries out what steps do, one kind of action per file:
// shell commands, agents, HTTP requests, files.
//
// An action is one attempt of one step. It knows nothing of retries,
// handlers, conditions or journals: the engine decides about those and calls
// [Run] once for each attempt. What an action needs comes in a [Call]; what it
// did comes back as a [Result] and an error. The errors are typed, with the
// small methods that the matchers of package retry look for: ExitCode,
// HTTPStatus, RetryAfter, RateLimited, Timeout, Output, Class.
//
// Actions that are made of steps (foreach, validate, goal_seek, a
// sub-workflow) live in the engine, because what they do is run steps.
package action
