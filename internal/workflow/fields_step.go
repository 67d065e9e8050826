package workflow

import (
	"regexp"

	"github.com/bide-dev/bide/internal/expr"
	"github.com/bide-dev/bide/internal/option"
	"github.com/bide-dev/bide/internal/template"
)

var stepTable = newTable("step", "a step")

func stepFields() []field {
	return []field{
		{key: "shell", typ: tText, sample: "make", doc: "runs a command",
			act:  shellAction,
			into: of(func(x *twoActions) *written { return &x.shell })},
		{key: "claude", typ: tText, sample: "/review", doc: "asks the claude agent",
			act:  claudeAction,
			into: of(func(x *twoActions) *written { return &x.claude })},
		{key: "http", typ: oneOf(tText, tRef("http")), sample: "{url: 'http://localhost'}", doc: "makes an HTTP request",
			act: func(d *decoder, o *object, s *Step, key string, n *node) Action { return actionOrNil(d.http(n, key)) }},
		{key: "write_file", typ: tRef("write_file"), sample: "{path: a.txt, content: hello}", doc: "writes a file", was: "c",
			act: func(d *decoder, o *object, s *Step, key string, n *node) Action { return actionOrNil(d.writeFile(n)) }},
		{key: "foreach", typ: oneOf(tText, tList(tAny), tRef("foreach")), sample: "{items: [a, b], do: [{shell: make}]}", doc: "runs steps for each value", was: "mr",
			act: func(d *decoder, o *object, s *Step, key string, n *node) Action {
				return actionOrNil(d.foreach(o, s.Path, key, n))
			}},
		{key: "validate", typ: tValidate, sample: "{shell: check, threshold: 90}", doc: "a check with a score, on its own or beside an action", was: "mr",
			into: of(func(s *scoring) **node { return &s.check }), alone: true,
			act: func(d *decoder, _ *object, s *Step, _ string, n *node) Action {
				return actionOrNil(d.validate(n, s.Path))
			}},
		{key: "goal_seek", typ: tRef("goal_seek"), sample: "{goal: done, shell: make, validate: {shell: check}}", doc: "repeats until a score is reached", was: "*",
			act: func(d *decoder, o *object, s *Step, key string, n *node) Action {
				return actionOrNil(d.goalSeek(s.Path, n))
			}},
		{key: "test", typ: oneOf(tText, tRef("test")), sample: "{command: make test}", doc: "a command with a repair loop",
			act: func(d *decoder, o *object, s *Step, key string, n *node) Action {
				return actionOrNil(d.test(o, s, key, n))
			}},
		{key: "pipeline", typ: tText, sample: "flow.cst", doc: "runs a pipeline file",
			act: pipelineAction},
		{key: "workflow", typ: tText, sample: "other", doc: "runs an imported workflow", was: "*",
			act: callAction},
		{key: "use", typ: tText, sample: "check", doc: "runs a template of the file's templates; the same as workflow", was: "*",
			act: callAction},
		{key: "template", typ: tText, sample: "check", as: "use", was: "*",
			act: callAction},
		{key: "analyze", typ: tAny, sample: "{}", doc: "", inert: "the analysis does not exist any more; remove the step",
			act: analyzeAction},
		{key: "command", typ: tText, sample: "/review", doc: "the same as claude", was: "c",
			act: commandAction},
		{key: "handler", typ: tAny, sample: "{name: x}", doc: "not available: put the handler's steps here",
			act: handlerAction},
		{key: "do", typ: oneOf(tSteps, tRef("step")), sample: "[{shell: make}]", doc: "beside foreach: the steps", was: "*",
			into: of(func(x *loopSteps) *written { return &x.written })},
		{key: "parallel", typ: tAtOnce, sample: "2", def: "1", doc: "beside foreach: how many at once; true means 10; auto, or from min to max, finds it out as max_parallel of a map does", was: "*",
			read: by(readParallel)},
		{key: "max_items", typ: tInt(0), sample: "3", def: "all", doc: "beside foreach: at most this many; 0: all", was: "*",
			into: of(func(f *Foreach) *Int { return &f.MaxItems })},
		{key: "min_items", typ: tInt(0), sample: "1", def: "0", doc: "beside foreach: at least this many, as in it",
			into: of(func(f *Foreach) *Int { return &f.MinItems })},
		{key: "with", typ: tMap(tAny), sample: "{level: low}", doc: "beside pipeline and workflow: their inputs", was: "*",
			read: by(func(o *object, key string, n *node, a *arguments) { a.n, a.list = n, o.d.args(n, key) })},
		{key: "parameters", typ: tMap(tAny), sample: "{level: low}", as: "with", was: "*"},
		{key: "inputs", typ: tMap(tRef("step_input")), sample: "{spec: {from: a, pass_as: {argument: {position: 0}}}}", doc: "beside name, where the step has no action: values for its prompt", was: "*",
			read: by(func(o *object, key string, n *node, p *promptInputs) { o.d.inputsOf(n, key, p) })},
		{key: "args", typ: oneOf(tText, tTexts), sample: "[fast]", doc: "beside name: more words of the prompt; beside claude: more arguments of its command line",
			into: of(func(x *promptWords) *written { return &x.written })},
		{key: "skip_permissions", typ: tBool, sample: "true", doc: "beside claude: run without asking for permissions",
			read: by(func(o *object, key string, n *node, c *Claude) { o.d.skipPermissions(o, key, n, c) })},
		{key: "continue_session", typ: tBool, sample: "true", doc: "beside claude: another attempt continues the session of the one before it; where it cannot, its prompt ends with what that said last",
			read: by(func(o *object, key string, n *node, c *Claude) { o.d.continueSession(o, key, n, c) })},
		{key: "id", typ: tName, sample: "first", doc: "its name in variables",
			into: of(func(s *stepCalled) *written { return &s.id }),
			read: by(func(o *object, key string, n *node, id *stepID) { id.read(o, key, n) })},
		{key: "name", typ: tText, sample: "Build it", doc: "its label", was: "csmrg",
			into: either(of(func(p *promptName) *written { return &p.name }), of(func(s *Step) *string { return &s.Name }), of(func(s *stepCalled) *written { return &s.name }))},
		{key: "description", typ: tText, sample: "what it does", doc: "for people",
			into: of(func(s *Step) *string { return &s.Description })},
		{key: "when", typ: tExpr, sample: "'${workflow.iteration} > 1'", doc: "a condition; false skips the step", was: "csmrg",
			into: of(func(s *Step) **expr.Expr { return &s.When })},
		{key: "condition", typ: tExpr, sample: "'${workflow.iteration} > 1'", as: "when", was: "*"},
		{key: "if", typ: tExpr, sample: "'${workflow.iteration} > 1'", as: "when", was: "*"},
		{key: "timeout", typ: tBound, sample: "30s", doc: "of one attempt; " + durDoc, was: "cmrg",
			into: of(func(s *Step) *Duration { return &s.Timeout })},
		{key: "timeout_secs", typ: tBound, sample: "30", as: "timeout", was: "*"},
		{key: "timeout_by_attempt", typ: tList(tDur), sample: "[30s, 2m]", doc: "the timeout of the first attempt, of the second, and so on; the last holds for all others",
			read: by(func(o *object, key string, n *node, s *Step) { s.Timeouts = o.d.attemptTimeouts(n, key) })},
		{key: "stall_timeout", typ: tBound, sample: "5m", doc: "of a command or an agent: one that prints nothing for so long is ended and has failed; " + durDoc, def: "no bound",
			read: by(func(o *object, key string, n *node, s *Step) { o.d.stall(o, key, n, s) })},
		{key: "retry", typ: tRetry, sample: "{attempts: 5, backoff: fibonacci}", doc: "tries again", was: "cmrg",
			read: by(func(o *object, key string, n *node, p *stepPolicy) { p.spec = o.d.retrySpec(n, key) })},
		{key: "retry_config", typ: tRetry, sample: "{attempts: 5, backoff: fibonacci}", as: "retry", was: "*"},
		{key: "limits", typ: tTexts, sample: "[anthropic]", doc: "limits of the machine, from limits.yml in the home directory; each attempt holds a slot of each",
			read: by(func(o *object, key string, n *node, s *Step) { s.Limits = o.limitRefs(n, key) })},
		{key: "priority", typ: tPriority, sample: "high", def: "normal", doc: "which attempt goes first when several wait for a limit of the machine: a word, or from 0 to 100 with 50 as normal; each point is worth half a second of waiting",
			read: by(func(o *object, key string, n *node, s *Step) { o.d.priority(o, key, n, s) })},
		{key: "on_failure", typ: tHandler, sample: "{shell: repair}", doc: "what to do when it failed",
			read: by(func(o *object, key string, n *node, s *Step) { o.d.stepFailure(o, key, n, s) })},
		{key: "on_success", typ: oneOf(tSteps, tRef("step")), sample: "{shell: notify}", doc: "steps after it ended well", was: "cmrg",
			read: by(func(o *object, key string, n *node, s *Step) { s.OnSuccess = o.d.hookSteps(n, s.Path+".on_success") })},
		{key: "on_exit_code", typ: tMap(oneOf(tSteps, tRef("step"), tText)), sample: "{3: {shell: notify}}", doc: "steps by exit status", was: "cmrg",
			read: by(func(o *object, key string, n *node, s *Step) { o.d.onExitCode(o, key, n, s) })},
		{key: "capture", typ: oneOf(tName, tRef("capture")), sample: "result", doc: "the variable that takes its output", was: "cmrg",
			read:  by(func(o *object, key string, n *node, s *Step) { o.d.capture(o, key, n, &s.Capture) }),
			fresh: func(n *node) bool { return n.kind == mapNode }},
		{key: "capture_output", typ: oneOf(tBool, tName), sample: "result", def: "false", doc: "true, false, or the variable that takes its output", was: "mr",
			read: by(func(o *object, key string, n *node, s *Step) { o.d.captureOutput(o, key, n, &s.Capture) })},
		{key: "capture_format", typ: tFormat, sample: "json", doc: "how the output is read", def: "string", was: "cmrg",
			read: by(func(o *object, key string, n *node, s *Step) {
				s.Capture.Format = o.choiceAt(s.Capture.Format, key, n)
			})},
		{key: "capture_streams", typ: oneOf(tEnum("stdout", "stderr", "both"), tTexts, tRef("capture_streams")), sample: "both", def: "stdout, exit_code, success, duration", doc: "which parts of the result", was: "cmrg",
			read: by(func(o *object, key string, n *node, s *Step) { o.d.streams(n, &s.Capture) })},
		{key: "output_file", typ: tText, sample: "out.txt", doc: "the file that takes its output, all of it, byte for byte and with the secrets that stand in it, also that of an attempt that fails; a name that data gives stays within the working directory", was: "mr",
			into: of(func(s *Step) **template.Text { return &s.OutputFile })},
		{key: "outputs", typ: tMap(oneOf(tText, tRef("output"))), sample: "{report: {file_pattern: '*.md'}}", doc: "named outputs", was: "csmrg",
			read: by(func(o *object, key string, n *node, s *Step) { s.Outputs = o.d.outputs(n, key) })},
		{key: "step_validate", typ: oneOf(tText, tTexts, tRef("step_validate")), sample: "[test -s out]", doc: "commands that check it", was: "cmr",
			into: of(func(x *stepCheck) **node { return &x.n })},
		{key: "skip_validation", typ: tBool, sample: "true", doc: "beside step_validate: leave the check out", was: "cmr",
			into: of(func(c *besideCheck) *bool { return &c.skip })},
		{key: "validation_timeout", typ: tBound, sample: "10s", doc: "beside step_validate; " + durDoc, was: "cmr",
			into: of(func(c *besideCheck) *Duration { return &c.timeout })},
		{key: "ignore_validation_failure", typ: tBool, sample: "true", doc: "beside step_validate: a failed check is only told", was: "cmr",
			into: of(func(c *besideCheck) *bool { return &c.ignore })},
		{key: "env", typ: tEnv, sample: "{LEVEL: 3}", doc: "its environment variables", was: "cmr",
			read: by(func(o *object, key string, n *node, s *Step) { s.Env = append(s.Env, o.d.env(n)...) })},
		{key: "env_by_attempt", typ: tList(tEnv), sample: "[{LEVEL: low}, {LEVEL: high}]", doc: "more environment variables for the first attempt, for the second, and so on; the last hold for all others",
			read: by(func(o *object, key string, n *node, s *Step) { s.Envs = o.d.attemptEnvs(n, key) })},
		{key: "working_dir", typ: tText, sample: "sub", doc: "where it runs", was: "cmr",
			into: of(func(s *Step) **template.Text { return &s.WorkingDir })},
		{key: "cwd", typ: tText, sample: "sub", as: "working_dir", was: "*"},
		{key: "clear_env", typ: tBool, sample: "true", doc: "nothing of the environment is inherited", was: "*",
			into: of(func(s *Step) *bool { return &s.ClearEnv })},
		{key: "commit_required", typ: tBool, sample: "true", doc: "it fails where it made no commit", was: "mr",
			into: of(func(s *Step) *bool { return &s.CommitRequired })},
		{key: "auto_commit", typ: oneOf(tBool, tRef("commit")), sample: "true", doc: "what it changed is committed when it has ended; false: what it leaves is not committed at the end of the item either", was: "cmr",
			read: by(func(o *object, key string, n *node, s *Step) { o.d.autoCommit(o, key, n, s) })},
		{key: "commit_config", typ: tRef("commit"), sample: "{message_template: step}", doc: "beside auto_commit", was: "cmr",
			into: of(func(x *besideCommit) **node { return &x.n })},
		{key: "continue_on_error", typ: tBool, sample: "true", doc: "its failure does not end the workflow", was: "*",
			read: by(func(o *object, key string, n *node, s *Step) { o.mayFail(key, n, s) }),
			into: of(func(f *Foreach) *bool { return &f.ContinueOnError })},
		{key: "allow_failure", typ: tBool, sample: "true", as: "continue_on_error", was: "*",
			read: by(func(o *object, key string, n *node, s *Step) { o.mayFail(key, n, s) })},
		{key: "ignore_errors", typ: tBool, sample: "true", as: "continue_on_error", was: "*",
			read: by(func(o *object, key string, n *node, s *Step) { o.mayFail(key, n, s) })},
		{key: "fail_workflow", typ: tBool, sample: "false", doc: "true: a step that failed for good, also one that the repair in its on_failure did not mend, ends the workflow; in a map it ends its item, and error_policy says what becomes of the map. false: the same as continue_on_error", def: "true; beside on_failure with a repair, what that one says", was: "*",
			read: by(func(o *object, key string, n *node, s *Step) { o.d.failWorkflow(o, key, n, s) })},
		{key: "metadata", typ: tRef("metadata"), sample: "{retries: 2}", doc: "of steps in the oldest form", was: "*",
			into: of(func(x *oldStep) *written { return &x.written })},
		{key: "options", typ: tAny, sample: "{}", doc: "", inert: inertNoted},
		{key: "analysis", typ: tAny, sample: "{}", doc: "", inert: "the analysis does not exist any more"},
		{key: "commit_validation", typ: tAny, sample: "{}", doc: "", inert: "commit_required and commit_config.message_pattern check commits"},
		{key: "max_attempts", typ: tInt(1), sample: "3", doc: "short for retry: {attempts: …}", was: "*",
			into: of(func(x *stepPolicy) *written { return &x.attempts })},
		{key: "temporary", typ: tAny, sample: "true", doc: "", inert: "the env of a step never outlives the step"},
	}
}

var handlerTable = newTable("on_failure", "an on_failure")

func handlerFields() []field {
	return []field{
		{key: "commands", typ: tSteps, sample: "[{shell: repair}]", doc: "the handler's steps",
			into: of(func(x *handlerSteps) *written { return &x.list })},
		{key: "steps", typ: tSteps, sample: "[{shell: repair}]", as: "commands"},
		{key: "strategy", typ: tEnum("recovery", "fallback", "cleanup", "custom"), sample: "cleanup", doc: "what the handler is for", def: "recovery",
			into: of(func(h *Handler) *string { return &h.Strategy })},
		{key: "max_attempts", typ: tInt(1), sample: "4", def: "1; of an agent 3; with retry_original 2", doc: "how often the step runs in all",
			into: of(func(h *handlerSteps) *int { return &h.attempts })},
		{key: "max_retries", typ: tInt(1), sample: "3", as: "max_attempts"},
		{key: "retry_original", typ: tBool, sample: "true", doc: "the step runs again after the handler",
			into: of(func(h *handlerSteps) *bool { return &h.again })},
		{key: "fail_workflow", typ: tBool, sample: "true", def: "false: the next step runs, and the exit status is 3", doc: "a step that its repair did not mend ends the workflow, or in a map its item; false: it may fail, and the exit status is 0; where it is missing, the fail_workflow of the step counts",
			into: of(func(h *Handler) *bool { return &h.FailWorkflow })},
		{key: "handler_failure_fatal", typ: tBool, sample: "true", doc: "a handler that fails fails the step at once",
			into: of(func(h *Handler) *bool { return &h.Fatal })},
		{key: "timeout", typ: tBound, sample: "30s", doc: "of the handler; " + durDoc,
			into: of(func(h *Handler) *Duration { return &h.Timeout })},
		{key: "capture", typ: oneOf(tName, tMap(tText)), sample: "{why: error.message}", doc: "variables that it sets",
			takes: func(n *node) bool { return n.kind == mapNode },
			read:  by(func(o *object, key string, n *node, h *Handler) { o.d.captures(n, key, h) })},
		{key: "commit_required", typ: tBool, sample: "true", doc: "the handler must commit",
			into: of(func(h *Handler) *bool { return &h.CommitRequired })},
	}
}

var httpTable = newTable("http", "an http step")

func httpFields() []field {
	return []field{
		{key: "url", typ: tText, sample: "'http://localhost'", doc: "the address; data in it are escaped for their place, and choose the server only where all of the address, or of the server's name, is data: ${…|raw} where they may; a redirect to another server takes no header with a secret along",
			into: of(func(h *HTTP) **template.Text { return &h.URL })},
		{key: "method", typ: tText, sample: "PUT", def: "GET, or POST with a body", doc: "the method",
			into: of(func(x *httpMethod) *written { return &x.written })},
		{key: "headers", typ: tMap(oneOf(tText, tTexts)), sample: "{Accept: text/plain}", doc: "request headers",
			read: by(func(o *object, key string, n *node, h *HTTP) { h.Headers = o.d.headers(n, key) })},
		{key: "body", typ: tAny, sample: "{a: 1}", doc: "a text, or a value sent as JSON; data in a text that is JSON, or a form by its Content-Type, are escaped for their place: ${…|raw} where they need not be",
			into: of(func(x *httpBody) *written { return &x.written })},
		{key: "json", typ: tAny, sample: "{a: 1}", doc: "a value sent as JSON",
			read: by(func(o *object, key string, n *node, b *httpBody) { b.asJSON(o, key, n) })},
		{key: "expect", typ: tExpect, sample: "[200, 2xx, 400-404]", doc: "the statuses that are a success", def: "2xx",
			read: by(func(o *object, key string, n *node, h *HTTP) { h.Expect = o.d.expect(n) })},
		{key: "max_body", typ: tInt(1), sample: "1000", doc: "how long the body of the answer may be, in bytes; a longer one fails the step (class input) where something reads it, and is cut where nothing does", def: "1 MiB; any length with output_file",
			into: of(func(h *HTTP) *int { return &h.MaxBody })},
	}
}

var writeFileTable = newTable("write_file", "a write_file step")

func writeFileFields() []field {
	return []field{
		{key: "path", typ: tText, sample: "a.txt", doc: "inside the working directory",
			into: of(func(w *WriteFile) **template.Text { return &w.Path })},
		{key: "content", typ: tAny, sample: "hello", doc: "what is written",
			into: of(func(c *fileContent) *orNull { return &c.orNull })},
		{key: "format", typ: tEnum("text", "json", "yaml"), sample: "json", doc: "json and yaml are checked and laid out", def: "text",
			into: of(func(w *WriteFile) *string { return &w.Format })},
		{key: "mode", typ: oneOf(tText), sample: "'0600'", def: "0644", doc: "the file's permissions, octal",
			read: by(func(o *object, key string, n *node, w *WriteFile) { o.d.mode(n, w) })},
		{key: "create_dirs", typ: tBool, sample: "true", doc: "missing directories are made",
			into: of(func(w *WriteFile) *bool { return &w.CreateDirs })},
	}
}

var foreachTable = newTable("foreach", "a foreach")

func foreachFields() []field {
	return []field{
		{key: "foreach", typ: oneOf(tText, tList(tAny)), sample: "[a]", doc: "a list, or a command whose lines are the values",
			into: of(func(x *loopValues) *written { return &x.list })},
		{key: "items", typ: oneOf(tText, tList(tAny)), sample: "[a]", as: "foreach"},
		{key: "list", typ: oneOf(tText, tList(tAny)), sample: "[a]", as: "foreach"},
		{key: "input", typ: oneOf(tText, tList(tAny), tRef("map_input")), sample: "items.json", doc: "a file of values; or {file: FILE} or {command: COMMAND}, as a map's",
			into: of(func(x *loopValues) *written { return &x.input })},
		{key: "json_path", typ: tPath, sample: "'$.items[*]'", doc: "a JSONPath (RFC 9535) to the values",
			into: of(func(f *Foreach) *string { return &f.JSONPath })},
		{key: "do", typ: oneOf(tSteps, tRef("step")), sample: "[{shell: make}]", doc: "the steps",
			into: of(func(x *loopSteps) *written { return &x.written })},
		{key: "commands", typ: tSteps, sample: "[{shell: make}]", as: "do"},
		{key: "steps", typ: tSteps, sample: "[{shell: make}]", as: "do"},
		{key: "parallel", typ: tAtOnce, sample: "4", def: "1", doc: "how many at once; true means 10; auto, or from min to max, finds it out as max_parallel of a map does",
			read: by(readParallel)},
		{key: "max_parallel", typ: tWidth, sample: "4", as: "parallel"},
		{key: "continue_on_error", typ: tBool, sample: "true", doc: "a failed value does not end the others, and the step is incomplete: --fail-on incomplete makes that the exit status",
			into: of(func(f *Foreach) *bool { return &f.ContinueOnError })},
		{key: "max_items", typ: tInt(0), sample: "3", def: "all", doc: "at most this many; 0: all",
			into: of(func(f *Foreach) *Int { return &f.MaxItems })},
		{key: "min_items", typ: tInt(0), sample: "1", def: "0", doc: "at least this many: with fewer the step fails before the first, and a resume or another attempt reads the list again. 0 allows a command to give no value although it writes to standard error",
			into: of(func(f *Foreach) *Int { return &f.MinItems })},
		{key: "timeout", typ: tBound, sample: "5m", doc: "of all of it; " + durDoc,
			into: of(func(f *Foreach) *Duration { return &f.Timeout })},
	}
}

var goalSeekTable = newTable("goal_seek", "a goal_seek")

func goalSeekFields() []field {
	return []field{
		{key: "goal", typ: tText, sample: "all tests pass", doc: "what the steps are to reach",
			into: of(func(g *GoalSeek) **template.Text { return &g.Goal })},
		{key: "claude", typ: tText, sample: "/improve", doc: "the attempt",
			into: of(func(x *inlineSteps) *written { return &x.claude })},
		{key: "shell", typ: tText, sample: "make", doc: "the attempt",
			into: of(func(x *inlineSteps) *written { return &x.shell })},
		{key: "command", typ: tText, sample: "make", doc: "the same as shell; the same as claude where it begins with a slash",
			into: of(func(x *inlineSteps) *written { return &x.legacy })},
		{key: "do", typ: tSteps, sample: "[{shell: make}]", doc: "the attempt",
			into: of(func(x *inlineSteps) *written { return &x.list })},
		{key: "validate", typ: oneOf(tText, tSteps, tRef("step")), sample: "{shell: score}", doc: "prints the score; of a command that prints none, the exit status is the result where the threshold is 100",
			into: of(func(x *scoring) **node { return &x.check })},
		{key: "threshold", typ: tNum(0, 100), sample: "90", doc: "the score to reach, in percent", def: "100",
			into: of(func(g *GoalSeek) *float64 { return &g.Threshold })},
		{key: "max_attempts", typ: tInt(1), sample: "5", doc: "how many rounds there are at most", def: "3",
			into: of(func(g *GoalSeek) *int { return &g.MaxAttempts })},
		{key: "timeout", typ: tBound, sample: "10m", doc: "of all of it; " + durDoc,
			into: of(func(g *GoalSeek) *Duration { return &g.Timeout })},
		{key: "timeout_seconds", typ: tBound, sample: "600", as: "timeout"},
		{key: "fail_on_incomplete", typ: tBool, sample: "false", doc: "whether the step fails where the score is not reached or cannot be read", def: "true",
			into: of(func(g *GoalSeek) *bool { return &g.FailOnIncomplete })},
	}
}

var testTable = newTable("test", "a test")

func testFields() []field {
	return []field{
		{key: "command", typ: tText, sample: "make test", doc: "the command",
			into: of(func(x *commandText) *written { return &x.written })},
		{key: "shell", typ: tText, sample: "make test", doc: "the same as command",
			into: of(func(x *commandText) *written { return &x.written })},
		{key: "on_failure", typ: tHandler, sample: "{claude: /repair}", doc: "see the step's",
			read: by(func(o *object, _ string, n *node, s *Step) { s.OnFailure = o.d.onFailure(n, s) })},
	}
}

var validateTable = newTable("validate", "a validate")

func validateFields() []field {
	return []field{
		{key: "commands", typ: tSteps, sample: "[{shell: check}]", doc: "the check",
			into: of(func(x *inlineSteps) *written { return &x.list })},
		{key: "shell", typ: tText, sample: "check", doc: "the check",
			into: of(func(x *inlineSteps) *written { return &x.shell })},
		{key: "command", typ: tText, sample: "check", doc: "the same as shell",
			into: of(func(x *inlineSteps) *written { return &x.legacy })},
		{key: "claude", typ: tText, sample: "/check", doc: "the check",
			into: of(func(x *inlineSteps) *written { return &x.claude })},
		{key: "threshold", typ: tNum(0, 100), sample: "90", doc: "the score to reach, in percent", def: "100",
			into: of(func(v *Validate) *float64 { return &v.Threshold })},
		{key: "result_file", typ: tText, sample: "result.json", doc: "where the check leaves its result", def: "its output",
			into: either(of(func(v *Validate) **template.Text { return &v.ResultFile }), of(func(r *resultFile) *written { return &r.written }))},
		{key: "timeout", typ: tBound, sample: "60s", doc: "of one check; " + durDoc,
			into: of(func(v *Validate) *Duration { return &v.Timeout })},
		{key: "expected_schema", typ: oneOf(tText, &form{Type: "object"}, &form{Type: "boolean"}), sample: "{type: object}", doc: "a JSON Schema that the result must fit, or the file of one", was: "*",
			read: by(func(o *object, key string, n *node, v *Validate) { o.d.expectedSchema(key, n, v) })},
		{key: "on_incomplete", typ: oneOf(tText, tSteps, tRef("on_incomplete")), sample: "{claude: /finish}", doc: "what to do below the threshold; continue: report it and continue",
			into: of(func(x *incomplete) **node { return &x.n })},
	}
}

var onIncompleteTable = newTable("on_incomplete", "an on_incomplete")

func onIncompleteFields() []field {
	return []field{
		{key: "commands", typ: tSteps, sample: "[{shell: finish}]", doc: "the steps",
			into: of(func(x *inlineSteps) *written { return &x.list })},
		{key: "claude", typ: tText, sample: "/finish", doc: "the step",
			into: of(func(x *inlineSteps) *written { return &x.claude })},
		{key: "shell", typ: tText, sample: "finish", doc: "the step",
			into: of(func(x *inlineSteps) *written { return &x.shell })},
		{key: "command", typ: tText, sample: "/finish", doc: "the same as claude",
			into: of(func(x *inlineSteps) *written { return &x.legacy })},
		{key: "prompt", typ: tText, sample: "'go on?'", doc: "a question on the terminal",
			into: of(func(i *OnIncomplete) **template.Text { return &i.Prompt })},
		{key: "max_attempts", typ: tInt(1), sample: "3", doc: "how often it is repaired at most", def: "2",
			into: of(func(i *OnIncomplete) *int { return &i.MaxAttempts })},
		{key: "fail_workflow", typ: tBool, sample: "false", doc: "a score that is missed to the end fails the step", def: "true",
			into: of(func(i *OnIncomplete) *bool { return &i.FailWorkflow })},
		{key: "commit_required", typ: tBool, sample: "true", doc: "the steps must commit",
			into: of(func(i *OnIncomplete) *bool { return &i.CommitRequired })},
		{key: "retry_delay", typ: tDur, sample: "5s", def: "0s", doc: "between attempts; " + durDoc,
			into: of(func(i *OnIncomplete) *Duration { return &i.RetryDelay })},
	}
}

var stepValidateTable = newTable("step_validate", "a step_validate")

func stepValidateFields() []field {
	return []field{
		{key: "commands", typ: tList(oneOf(tText, tRef("check_command"))), sample: "[{command: test -s out}]", doc: "the checks",
			into: of(func(x *checkList) **node { return &x.n })},
		{key: "success_criteria", typ: oneOf(tEnum("all", "any"), tRef("criteria")), sample: "any", doc: "how many must end well", def: "all",
			read: by(func(o *object, key string, n *node, c *StepValidate) { o.d.criteria(o, key, n, c) })},
		{key: "max_attempts", typ: tInt(1), sample: "2", doc: "how often the checks are made at most", def: "1",
			into: of(func(c *StepValidate) *int { return &c.MaxAttempts })},
		{key: "retry_delay", typ: tDur, sample: "7", doc: "between attempts; " + durDoc, def: "5 s",
			into: of(func(c *StepValidate) *Duration { return &c.RetryDelay })},
		{key: "timeout", typ: tBound, sample: "30s", doc: "of the checks; " + durDoc,
			into: of(func(c *StepValidate) *Duration { return &c.Timeout })},
		{key: "ignore_failure", typ: tBool, sample: "true", doc: "a failed check is only told",
			into: of(func(c *StepValidate) *bool { return &c.IgnoreFailure })},
	}
}

var checkCommandTable = newTable("check_command", "a check")

func checkCommandFields() []field {
	return []field{
		{key: "command", typ: tText, sample: "test -s out", doc: "what runs",
			into: of(func(x *checkRun) *written { return &x.text.written })},
		{key: "shell", typ: tText, sample: "test -s out", doc: "the same as command",
			read: by(func(o *object, key string, n *node, r *checkRun) { r.means(o, key, n) })},
		{key: "claude", typ: tText, sample: "/check", doc: "an agent that checks",
			read: by(func(o *object, key string, n *node, r *checkRun) { r.means(o, key, n) })},
		{key: "expect_output", typ: tText, sample: "ok", doc: "a regular expression",
			into: of(func(c *CheckCommand) **regexp.Regexp { return &c.ExpectOutput })},
		{key: "expect_exit_code", typ: tInt(0), sample: "1", doc: "the exit status of a check that ended well", def: "0",
			into: of(func(c *CheckCommand) *int { return &c.ExpectExitCode })},
		{key: "command_type", typ: tEnum("shell", "claude"), sample: "claude", def: "shell", doc: "what command is",
			into: of(func(r *checkRun) *string { return &r.kind })},
	}
}

var criteriaTable = newTable("criteria", "success_criteria")

func criteriaFields() []field {
	return []field{
		{key: "at_least", typ: tInt(1), sample: "1", doc: "this many checks must succeed",
			read: by(func(o *object, key string, n *node, c *StepValidate) { o.d.atLeast(key, n, c) })},
	}
}

var captureTable = newTable("capture", "a capture")

func captureFields() []field {
	return []field{
		{key: "output", typ: tName, sample: "result", doc: "the variable",
			read: by(func(o *object, key string, n *node, c *Capture) { c.Name = o.d.identifierAt(o, n, key) })},
		{key: "format", typ: tFormat, sample: "json", def: "string", as: "capture_format",
			into: of(func(c *Capture) *string { return &c.Format })},
	}
}

var captureStreamsTable = newTable("capture_streams", "capture_streams")

func captureStreamsFields() []field {
	return []field{
		{key: "stdout", typ: tBool, sample: "false", doc: "it is captured", def: "true",
			into: of(func(s *Streams) *bool { return &s.Stdout })},
		{key: "stderr", typ: tBool, sample: "true", doc: "it is captured", def: "false",
			into: of(func(s *Streams) *bool { return &s.Stderr })},
		{key: "exit_code", typ: tBool, sample: "false", doc: "it is captured", def: "true",
			into: of(func(s *Streams) *bool { return &s.ExitCode })},
		{key: "success", typ: tBool, sample: "false", doc: "it is captured", def: "true",
			into: of(func(s *Streams) *bool { return &s.Success })},
		{key: "duration", typ: tBool, sample: "false", doc: "it is captured", def: "true",
			into: of(func(s *Streams) *bool { return &s.Duration })},
	}
}

var outputTable = newTable("output", "an output")

func outputFields() []field {
	return []field{
		{key: "file_pattern", typ: tText, sample: "'*.md'", doc: "files that the step made: " + patternDoc,
			into: of(func(out *Output) *string { return &out.FilePattern })},
		{key: "json_path", typ: tPath, sample: "$.name", doc: "a JSONPath into the step's output",
			into: of(func(out *Output) *string { return &out.JSONPath })},
		{key: "value", typ: tText, sample: "'${shell.output}'", doc: "a text",
			into: of(func(out *Output) **template.Text { return &out.Value })},
		{key: "extract_from", typ: oneOf(tText, tMap(tAny)), sample: "stdout", doc: "an older form: stdout, or {git_commit: {file_pattern: …}}", was: "*",
			into: of(func(x *outputForm) **node { return &x.n })},
	}
}

var commitTable = newTable("commit", "a commit_config")

func commitFields() []field {
	return []field{
		{key: "message_template", typ: tText, sample: "'run ${workflow.name}'", def: "the label of the step", doc: "the message",
			into: of(func(c *Commit) **template.Text { return &c.Message })},
		{key: "message", typ: tText, sample: "step", as: "message_template"},
		{key: "message_pattern", typ: tText, sample: "'^[a-z]'", doc: "a regular expression that the message must match",
			into: of(func(c *Commit) **regexp.Regexp { return &c.Pattern })},
		{key: "sign", typ: tBool, sample: "true", doc: "sign the commit",
			into: of(func(c *Commit) *bool { return &c.Sign })},
		{key: "author", typ: tText, sample: "'A <a@example.org>'", doc: "NAME <EMAIL>",
			read: by(func(o *object, key string, n *node, c *Commit) { c.Author = o.d.author(o, key, n) })},
		{key: "include_files", typ: tTexts, sample: "['*.go']", def: "all that changed", doc: "which files",
			into: of(func(c *Commit) *[]string { return &c.Include })},
		{key: "exclude_files", typ: tTexts, sample: "['*.log']", doc: "which files not",
			into: of(func(c *Commit) *[]string { return &c.Exclude })},
		{key: "squash", typ: tBool, sample: "true", doc: "one commit of all the step's commits",
			into: of(func(c *Commit) *bool { return &c.Squash })},
	}
}

var metadataTable = newTable("metadata", "metadata")

func metadataFields() []field {
	return []field{
		{key: "retries", typ: tInt(0), sample: "2", def: "0", doc: "attempts after the first",
			into: of(func(x *oldRetries) *written { return &x.written })},
		{key: "timeout", typ: tBound, sample: "30", doc: "of one attempt; " + durDoc,
			into: of(func(m *metadata) *Duration { return &m.timeout })},
		{key: "continue_on_error", typ: tBool, sample: "true", doc: "see the step's",
			into: of(func(m *metadata) *bool { return &m.mayFail })},
		{key: "env", typ: tEnv, sample: "{A: b}", doc: "see the step's",
			read: by(func(o *object, _ string, n *node, m *metadata) { m.env = o.d.env(n) })},
		{key: "commit_required", typ: tBool, sample: "true", doc: "see the step's",
			into: of(func(m *metadata) *bool { return &m.commitRequired })},
		{key: "analysis", typ: tAny, sample: "{}", doc: "", inert: "the analysis does not exist any more"},
	}
}

var retryTable = newTable("retry", "a retry policy")

func retryFields() []field { return optionFields(option.For(option.File)) }

var ruleTable = newTable("rule", "a rule")

func ruleFields() []field {
	on := field{key: "on", typ: tMatchers, sample: "rate_limit", doc: "which errors it is for",
		read: by(func(o *object, key string, n *node, r *option.Rule) { r.On = o.d.matchers(n, key) })}
	return append([]field{on}, optionFields(option.For(option.InRule))...)
}

var backoffTable = newTable("backoff", "a backoff")

func backoffFields() []field {
	return []field{
		{key: "type", typ: tEnum(option.Strategies...), sample: "linear", def: "the policy's", doc: "the strategy",
			into: of(func(x *strategyNamed) *written { return &x.written })},
		{key: "strategy", typ: tEnum(option.Strategies...), sample: "linear", as: "type"},
		{key: "delay", typ: tDur, sample: "2s", def: "the policy's", as: "initial_delay"},
		{key: "initial", typ: tDur, sample: "2s", def: "the policy's", as: "initial_delay"},
		{key: "initial_delay", typ: tDur, sample: "2s", def: "the policy's", doc: "instead of the policy's; " + durDoc},
		{key: "max", typ: tDur, sample: "1m", def: "the policy's", as: "max_delay"},
		{key: "max_delay", typ: tDur, sample: "1m", def: "the policy's", doc: "instead of the policy's; " + durDoc},
		{key: "increment", typ: tDur, sample: "2s", def: "the policy's", doc: "of linear; " + durDoc},
		{key: "base", typ: tNum(1, 0), sample: "3", def: "the policy's", doc: "of exponential"},
		{key: "multiplier", typ: tNum(1, 0), sample: "3", as: "base"},
		{key: "factor", typ: tNum(1, 0), sample: "3", as: "base"},
		{key: "delays", typ: tList(tDur), sample: "[1s, 3s]", def: "the policy's", doc: "of custom"},
	}
}

var fallbackTable = newTable("retry_failure", "a retry's on_failure")

func fallbackFields() []field {
	return []field{
		{key: "fallback", typ: oneOf(tText, tRef("command")), sample: "{command: echo none}", doc: "a command that runs once in its place",
			into: of(func(x *fallbackOf) *written { return &x.written })},
	}
}

var commandTable = newTable("command", "a fallback")

func commandFields() []field {
	return []field{
		{key: "command", typ: tText, sample: "echo none", doc: "the command",
			into: of(func(x *commandText) *written { return &x.written })},
		{key: "shell", typ: tText, sample: "echo none", doc: "the same as command",
			into: of(func(x *commandText) *written { return &x.written })},
	}
}

var matcherTable = newTable("matcher", "a matcher")

func matcherFields() []field {
	return []field{
		{key: "pattern", typ: tText, sample: "'try later'", doc: "a regular expression (RE2)",
			read: by(func(o *object, key string, n *node, list *[]Matcher) {
				*list = append(*list, o.d.patternMatcher(key, n)...)
			})},
		{key: "exit_code", typ: oneOf(tInt(0), tList(tInt(0))), sample: "[75, 111]", doc: "exit statuses of the command",
			read: by(func(o *object, key string, n *node, list *[]Matcher) {
				*list = append(*list, o.d.exitMatcher(key, n)...)
			})},
	}
}

var breakerTable = newTable("circuit_breaker", "a circuit_breaker")

func breakerFields() []field { return optionFields(option.BreakerTable()) }

var quotaTable = newTable("quota", "a quota")

// mostInitial is far more retries than a quota has any use for, and a number that can be
// counted with.
const mostInitial = 1_000_000

func quotaFields() []field {
	return []field{
		{key: "name", typ: tName, sample: "api", doc: "what shares it",
			into: of(func(q *Quota) *string { return &q.Name })},
		{key: "ratio", typ: tNum(0, 1000), sample: "0.2", def: "0.1", doc: "retries that each execution of a step earns",
			into: of(func(q *Quota) *float64 { return &q.Ratio })},
		{key: "initial", typ: tNum(0, mostInitial), sample: "5", def: "10", doc: "retries that are there from the start",
			into: of(func(q *Quota) *float64 { return &q.Initial })},
		{key: "floor", typ: tNum(0, mostInitial), sample: "5", def: "10", as: "initial"},
	}
}

var secsTable = newTable("seconds", "a span of time")

func secsFields() []field {
	return []field{
		{key: "secs", typ: tNum(0, 0), sample: "1", def: "0", doc: "seconds",
			read: nanosPer(1e9)},
		{key: "nanos", typ: tNum(0, 0), sample: "500000000", def: "0", doc: "nanoseconds",
			read: nanosPer(1)},
	}
}

var envValueTable = newTable("env_value", "an environment variable")

func envValueFields() []field {
	return []field{
		{key: "value", typ: tText, sample: "a", doc: "its value",
			into: either(of(func(v *envPlain) **template.Text { return &v.Text }), of(func(s *envSecret) *written { return &s.value.written }))},
		{key: "secret", typ: tBool, sample: "true", doc: "it is never shown; only in the env of the whole file",
			into: either(of(func(s *envSecret) *bool { return &s.secret }), of(func(f *envForm) *written { return &f.secret })),
			read: by(func(o *object, key string, n *node, v *EnvVar) { o.d.secretHere(o, key, n, v) })},
		{key: "command", typ: tText, sample: "date", doc: "its value is the command's output",
			into: either(of(func(v *envCommand) **template.Text { return &v.Command }), of(func(s *envSecret) *written { return &s.command.written }))},
		{key: "cache", typ: tBool, sample: "false", def: "true", doc: "beside command: run once in each life of the run, so again at a resume; false: at each use",
			into: either(of(func(v *envCommand) *bool { return &v.Cache }), of(func(s *envSecret) *bool { return &s.cache }))},
		{key: "condition", typ: tExpr, sample: "'${workflow.iteration}'", doc: "which of the two values",
			into: of(func(v *envCondition) **expr.Expr { return &v.Condition })},
		{key: "when_true", typ: tText, sample: "a", doc: "its value where the condition holds",
			into: of(func(v *envCondition) **template.Text { return &v.WhenTrue })},
		{key: "when_false", typ: tText, sample: "b", doc: "its value where it does not",
			into: of(func(v *envCondition) **template.Text { return &v.WhenFalse })},
	}
}

var envFileTable = newTable("env_file", "an entry of env_files")

func envFileFields() []field {
	return []field{
		{key: "path", typ: tText, sample: ".env", doc: "the file",
			into: of(func(x *envFilePath) **node { return &x.n })},
		{key: "required", typ: tBool, sample: "true", doc: "it is an error if the file is missing",
			into: of(func(f *EnvFile) *bool { return &f.Required })},
	}
}

var secretTable = newTable("secret", "a secret")

func secretFields() []field {
	return []field{
		{key: "provider", typ: tText, sample: "env", doc: "env, file, command or value",
			into: of(func(x *secretProvider) *written { return &x.written })},
		{key: "key", typ: tText, sample: "TOKEN", doc: "the variable, file or command",
			into: either(of(func(s *secretKey) **template.Text { return &s.Key }), of(func(s *otherStore) **node { return &s.key }))},
		{key: "value", typ: tText, sample: "'${HOME}'", doc: "the value itself, instead of provider and key",
			into: of(func(s *secretValue) **template.Text { return &s.Key })},
		{key: "secret", typ: tAny, sample: "true", doc: "", inert: "what stands under secrets is one"},
		{key: "version", typ: tAny, sample: "1", doc: "", inert: "none of the providers has versions",
			into: of(func(x *otherStore) **node { return &x.version })},
	}
}

var profileTable = newTable("profile", "a profile")

func profileFields() []field {
	return []field{
		{key: "env", typ: tEnv, sample: "{LEVEL: debug}", doc: "its environment variables",
			into: of(func(f *profileForm) *written { return &f.env }),
			read: by(func(o *object, key string, n *node, p *profile) { p.env = o.d.env(n) })},
		{key: "description", typ: tText, sample: "on the build server", doc: "for people",
			into: either(of(func(p *profile) *string { return &p.description }), of(func(f *profileForm) *written { return &f.description }))},
	}
}

var agentTable = newTable("agent", "an agent")

func agentFields() []field {
	return []field{
		{key: "command", typ: oneOf(tText, tTexts), sample: "[helper, '${prompt}']", doc: "its command line; the prompt is the last argument where ${prompt} is missing",
			into: of(func(x *agentProgram) *written { return &x.command })},
		{key: "output", typ: tEnum("text", "stream-json"), sample: "stream-json", doc: "what it prints", def: "text",
			into: of(func(x *agentProgram) *written { return &x.output })},
		{key: "env", typ: tEnv, sample: "{A: b}", doc: "its environment variables",
			read: by(func(o *object, key string, n *node, a *agentProgram) { a.Env = o.d.env(n) })},
		{key: "skip_permissions", typ: tBool, sample: "true", doc: "it runs without asking for permissions; only the claude program can",
			into: of(func(a *agentProgram) *bool { return &a.SkipPermissions })},
		{key: "stdin", typ: tBool, sample: "true", doc: "the prompt goes to its standard input",
			into: of(func(a *agentProgram) *bool { return &a.Stdin })},
		{key: "first_of", typ: tList(tText), sample: "[claude, codex]", doc: "a chain in place of a command: the first of these agents is asked that no rate limit pauses, and that is not down; where that is not the first, the step is degraded",
			into: of(func(x *agentChain) *written { return &x.written })},
		{key: "limits", typ: tTexts, sample: "[anthropic]", doc: "limits of the machine, from limits.yml in the home directory; each question holds a slot of each",
			read: by(func(o *object, key string, n *node, a *Agent) { a.Limits = o.limitRefs(n, key) })},
	}
}
