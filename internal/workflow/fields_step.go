package workflow

import "github.com/bide-dev/bide/internal/option"

var stepTable = newTable("step", "a step", func() []field {
	return []field{
		{key: "shell", typ: tText, sample: "make", doc: "runs a command"},
		{key: "claude", typ: tText, sample: "/review", doc: "asks the claude agent"},
		{key: "http", typ: oneOf(tText, tRef("http")), sample: "{url: 'http://localhost'}", doc: "makes an HTTP request"},
		{key: "write_file", typ: tRef("write_file"), sample: "{path: a.txt, content: hello}", doc: "writes a file", was: "c"},
		{key: "foreach", typ: oneOf(tText, tList(tAny), tRef("foreach")), sample: "{items: [a, b], do: [{shell: make}]}", doc: "runs steps for each value", was: "mr"},
		{key: "validate", typ: tValidate, sample: "{shell: check, threshold: 90}", doc: "a check with a score, on its own or beside an action", was: "mr"},
		{key: "goal_seek", typ: tRef("goal_seek"), sample: "{goal: done, shell: make, validate: {shell: check}}", doc: "repeats until a score is reached", was: "*"},
		{key: "test", typ: oneOf(tText, tRef("test")), sample: "{command: make test}", doc: "a command with a repair loop"},
		{key: "pipeline", typ: tText, sample: "flow.cst", doc: "runs a pipeline file"},
		{key: "workflow", typ: tText, sample: "other", doc: "runs an imported workflow", was: "*"},
		{key: "use", typ: tText, sample: "check", doc: "runs a template of the file's templates; the same as workflow", was: "*"},
		{key: "template", typ: tText, sample: "check", as: "use", was: "*"},
		{key: "analyze", typ: tAny, sample: "{}", doc: "", inert: "the analysis does not exist any more; remove the step"},
		{key: "command", typ: tText, sample: "/review", doc: "the same as claude", was: "c"},
		{key: "handler", typ: tAny, sample: "{name: x}", doc: "not available: put the handler's steps here"},
		{key: "do", typ: oneOf(tSteps, tRef("step")), sample: "[{shell: make}]", doc: "beside foreach: the steps", was: "*"},
		{key: "parallel", typ: oneOf(tBool, tInt(1)), sample: "2", doc: "beside foreach: how many at once", was: "*"},
		{key: "max_items", typ: tInt(0), sample: "3", doc: "beside foreach: at most this many", was: "*"},
		{key: "with", typ: tMap(tAny), sample: "{level: low}", doc: "beside pipeline and workflow: their inputs", was: "*"},
		{key: "parameters", typ: tMap(tAny), sample: "{level: low}", doc: "beside pipeline and workflow: the same as with", was: "*"},
		{key: "inputs", typ: tMap(tRef("step_input")), sample: "{spec: {from: a, pass_as: {argument: {position: 0}}}}", doc: "beside name, where the step has no action: values for its prompt", was: "*"},
		{key: "args", typ: oneOf(tText, tTexts), sample: "[fast]", doc: "beside name: more words of the prompt; beside claude: more arguments of its command line"},
		{key: "skip_permissions", typ: tBool, sample: "true", doc: "beside claude: run without asking for permissions"},
		{key: "continue_session", typ: tBool, sample: "true", doc: "beside claude: another attempt goes on with the session of the one before it"},
		{key: "id", typ: tName, sample: "first", doc: "its name in variables"},
		{key: "name", typ: tText, sample: "Build it", doc: "its label", was: "csmrg"},
		{key: "description", typ: tText, sample: "what it does", doc: "for people"},
		{key: "when", typ: tExpr, sample: "'${workflow.iteration} > 1'", doc: "a condition; false skips the step", was: "csmrg"},
		{key: "condition", typ: tExpr, sample: "'${workflow.iteration} > 1'", as: "when", was: "*"},
		{key: "if", typ: tExpr, sample: "'${workflow.iteration} > 1'", as: "when", was: "*"},
		{key: "timeout", typ: tDur, sample: "30s", doc: "of one attempt; " + durDoc, was: "cmrg"},
		{key: "timeout_secs", typ: tDur, sample: "30", as: "timeout", was: "*"},
		{key: "timeout_by_attempt", typ: tList(tDur), sample: "[30s, 2m]", doc: "the timeout of the first attempt, of the second, and so on; the last holds for all others"},
		{key: "stall_timeout", typ: tDur, sample: "5m", doc: "of a command or an agent: one that prints nothing for so long is ended and has failed; " + durDoc, def: "no bound"},
		{key: "retry", typ: tRetry, sample: "{attempts: 5, backoff: fibonacci}", doc: "tries again", was: "cmrg"},
		{key: "retry_config", typ: tRetry, sample: "{attempts: 5, backoff: fibonacci}", as: "retry", was: "*"},
		{key: "on_failure", typ: tHandler, sample: "{shell: repair}", doc: "what to do when it failed"},
		{key: "on_success", typ: oneOf(tSteps, tRef("step")), sample: "{shell: notify}", doc: "steps after it ended well", was: "cmrg"},
		{key: "on_exit_code", typ: tMap(oneOf(tSteps, tRef("step"), tText)), sample: "{3: {shell: notify}}", doc: "steps by exit status", was: "cmrg"},
		{key: "capture", typ: oneOf(tName, tRef("capture")), sample: "result", doc: "the variable that takes its output", was: "cmrg"},
		{key: "capture_output", typ: oneOf(tBool, tName), sample: "result", doc: "true, false, or the variable that takes its output", was: "mr"},
		{key: "capture_format", typ: tEnum("string", "text", "json", "lines", "number", "boolean"), sample: "json", doc: "how the output is read", def: "string", was: "cmrg"},
		{key: "capture_streams", typ: oneOf(tEnum("stdout", "stderr", "both"), tTexts, tRef("capture_streams")), sample: "both", doc: "which parts of the result", was: "cmrg"},
		{key: "output_file", typ: tText, sample: "out.txt", doc: "the file that takes its output, all of it and with the secrets that stand in it; a name that data gives stays within the working directory", was: "mr"},
		{key: "outputs", typ: tMap(oneOf(tText, tRef("output"))), sample: "{report: {file_pattern: '*.md'}}", doc: "named outputs", was: "csmrg"},
		{key: "step_validate", typ: oneOf(tText, tTexts, tRef("step_validate")), sample: "[test -s out]", doc: "commands that check it", was: "cmr"},
		{key: "skip_validation", typ: tBool, sample: "true", doc: "beside step_validate: leave the check out", was: "cmr"},
		{key: "validation_timeout", typ: tDur, sample: "10s", doc: "beside step_validate; " + durDoc, was: "cmr"},
		{key: "ignore_validation_failure", typ: tBool, sample: "true", doc: "beside step_validate: a failed check is only told", was: "cmr"},
		{key: "env", typ: tEnv, sample: "{LEVEL: 3}", doc: "its environment variables", was: "cmr"},
		{key: "env_by_attempt", typ: tList(tEnv), sample: "[{LEVEL: low}, {LEVEL: high}]", doc: "more environment variables for the first attempt, for the second, and so on; the last hold for all others"},
		{key: "working_dir", typ: tText, sample: "sub", doc: "where it runs", was: "cmr"},
		{key: "cwd", typ: tText, sample: "sub", as: "working_dir", was: "*"},
		{key: "clear_env", typ: tBool, sample: "true", doc: "nothing of the environment is inherited", was: "*"},
		{key: "commit_required", typ: tBool, sample: "true", doc: "it fails where it made no commit", was: "mr"},
		{key: "auto_commit", typ: oneOf(tBool, tRef("commit")), sample: "true", doc: "what it changed is committed", was: "cmr"},
		{key: "commit_config", typ: tRef("commit"), sample: "{message_template: step}", doc: "beside auto_commit", was: "cmr"},
		{key: "continue_on_error", typ: tBool, sample: "true", doc: "its failure does not end the workflow", was: "*"},
		{key: "allow_failure", typ: tBool, sample: "true", as: "continue_on_error", was: "*"},
		{key: "ignore_errors", typ: tBool, sample: "true", as: "continue_on_error", was: "*"},
		{key: "fail_workflow", typ: tBool, sample: "false", doc: "false: the same as continue_on_error", def: "true", was: "*"},
		{key: "metadata", typ: tRef("metadata"), sample: "{retries: 2}", doc: "of steps in the oldest form", was: "*"},
		{key: "options", typ: tAny, sample: "{}", doc: "", inert: inertNoted},
		{key: "analysis", typ: tAny, sample: "{}", doc: "", inert: "the analysis does not exist any more"},
		{key: "commit_validation", typ: tAny, sample: "{}", doc: "", inert: "commit_required and commit_config.message_pattern check commits"},
		{key: "max_attempts", typ: tInt(1), sample: "3", doc: "short for retry: {attempts: …}", was: "*"},
		{key: "temporary", typ: tAny, sample: "true", doc: "", inert: "the env of a step never outlives the step"},
	}
})

var handlerTable = newTable("on_failure", "an on_failure", func() []field {
	return []field{
		{key: "commands", typ: tSteps, sample: "[{shell: repair}]", doc: "the handler's steps"},
		{key: "steps", typ: tSteps, sample: "[{shell: repair}]", as: "commands"},
		{key: "strategy", typ: tEnum("recovery", "fallback", "cleanup", "custom"), sample: "cleanup", doc: "what the handler is for", def: "recovery"},
		{key: "max_attempts", typ: tInt(1), sample: "4", doc: "how often the step runs in all"},
		{key: "max_retries", typ: tInt(1), sample: "3", as: "max_attempts"},
		{key: "retry_original", typ: tBool, sample: "true", doc: "the step runs again after the handler"},
		{key: "fail_workflow", typ: tBool, sample: "true", doc: "a step that failed to the end ends the workflow"},
		{key: "handler_failure_fatal", typ: tBool, sample: "true", doc: "a handler that fails fails the step at once"},
		{key: "timeout", typ: tDur, sample: "30s", doc: "of the handler; " + durDoc},
		{key: "capture", typ: oneOf(tName, tMap(tText)), sample: "{why: error.message}", doc: "variables that it sets"},
		{key: "commit_required", typ: tBool, sample: "true", doc: "the handler must commit"},
	}
})

var httpTable = newTable("http", "an http step", func() []field {
	return []field{
		{key: "url", typ: tText, sample: "'http://localhost'", doc: "the address"},
		{key: "method", typ: tText, sample: "PUT", doc: "GET, or POST where there is a body"},
		{key: "headers", typ: tMap(oneOf(tText, tTexts)), sample: "{Accept: text/plain}", doc: "request headers"},
		{key: "body", typ: tAny, sample: "{a: 1}", doc: "a text, or a value sent as JSON"},
		{key: "json", typ: tAny, sample: "{a: 1}", doc: "a value sent as JSON"},
		{key: "expect", typ: tExpect, sample: "[200, 2xx, 400-404]", doc: "the statuses that are a success", def: "2xx"},
		{key: "max_body", typ: tInt(1), sample: "1000", doc: "in bytes", def: "1 MiB"},
	}
})

var writeFileTable = newTable("write_file", "a write_file step", func() []field {
	return []field{
		{key: "path", typ: tText, sample: "a.txt", doc: "inside the working directory"},
		{key: "content", typ: tAny, sample: "hello", doc: "what is written"},
		{key: "format", typ: tEnum("text", "json", "yaml"), sample: "json", doc: "json and yaml are checked and laid out", def: "text"},
		{key: "mode", typ: oneOf(tText), sample: "'0600'", doc: "the file's permissions, octal"},
		{key: "create_dirs", typ: tBool, sample: "true", doc: "missing directories are made"},
	}
})

var foreachTable = newTable("foreach", "a foreach", func() []field {
	return []field{
		{key: "foreach", typ: oneOf(tText, tList(tAny)), sample: "[a]", doc: "a list, or a command whose lines are the values"},
		{key: "items", typ: oneOf(tText, tList(tAny)), sample: "[a]", as: "foreach"},
		{key: "list", typ: oneOf(tText, tList(tAny)), sample: "[a]", as: "foreach"},
		{key: "input", typ: oneOf(tText, tList(tAny), tRef("map_input")), sample: "items.json", doc: "a file of values; or {file: FILE} or {command: COMMAND}, as a map's"},
		{key: "json_path", typ: tText, sample: "'$.items[*]'", doc: "a JSONPath (RFC 9535) to the values"},
		{key: "do", typ: oneOf(tSteps, tRef("step")), sample: "[{shell: make}]", doc: "the steps"},
		{key: "commands", typ: tSteps, sample: "[{shell: make}]", as: "do"},
		{key: "steps", typ: tSteps, sample: "[{shell: make}]", as: "do"},
		{key: "parallel", typ: oneOf(tBool, tInt(1)), sample: "4", doc: "how many at once; true means 10"},
		{key: "max_parallel", typ: tInt(1), sample: "4", as: "parallel"},
		{key: "continue_on_error", typ: tBool, sample: "true", doc: "a failed value does not end the others"},
		{key: "max_items", typ: tInt(0), sample: "3", doc: "at most this many"},
		{key: "timeout", typ: tDur, sample: "5m", doc: "of all of it; " + durDoc},
	}
})

var goalSeekTable = newTable("goal_seek", "a goal_seek", func() []field {
	return []field{
		{key: "goal", typ: tText, sample: "all tests pass", doc: "what is to be reached"},
		{key: "claude", typ: tText, sample: "/improve", doc: "the attempt"},
		{key: "shell", typ: tText, sample: "make", doc: "the attempt"},
		{key: "command", typ: tText, sample: "make", doc: "the same as shell; the same as claude where it begins with a slash"},
		{key: "do", typ: tSteps, sample: "[{shell: make}]", doc: "the attempt"},
		{key: "validate", typ: oneOf(tText, tSteps, tRef("step")), sample: "{shell: score}", doc: "prints the score"},
		{key: "threshold", typ: tNum(0, 100), sample: "90", doc: "the score to reach, in percent", def: "100"},
		{key: "max_attempts", typ: tInt(1), sample: "5", doc: "how many rounds there are at most", def: "3"},
		{key: "timeout", typ: tDur, sample: "10m", doc: "of all of it; " + durDoc},
		{key: "timeout_seconds", typ: tDur, sample: "600", as: "timeout"},
		{key: "fail_on_incomplete", typ: tBool, sample: "false", doc: "whether the step fails where the score is not reached or cannot be read", def: "true"},
	}
})

var testTable = newTable("test", "a test", func() []field {
	return []field{
		{key: "command", typ: tText, sample: "make test", doc: "the command"},
		{key: "shell", typ: tText, sample: "make test", doc: "the same as command"},
		{key: "on_failure", typ: tHandler, sample: "{claude: /repair}", doc: "see the step's"},
	}
})

var validateTable = newTable("validate", "a validate", func() []field {
	return []field{
		{key: "commands", typ: tSteps, sample: "[{shell: check}]", doc: "the check"},
		{key: "shell", typ: tText, sample: "check", doc: "the check"},
		{key: "command", typ: tText, sample: "check", doc: "the same as shell"},
		{key: "claude", typ: tText, sample: "/check", doc: "the check"},
		{key: "threshold", typ: tNum(0, 100), sample: "90", doc: "the score to reach, in percent", def: "100"},
		{key: "result_file", typ: tText, sample: "result.json", doc: "where the check leaves its result", def: "its output"},
		{key: "timeout", typ: tDur, sample: "60s", doc: "of one check; " + durDoc},
		{key: "expected_schema", typ: oneOf(tText, &form{Type: "object"}, &form{Type: "boolean"}), sample: "{type: object}", doc: "a JSON Schema that the result must fit, or the file of one", was: "*"},
		{key: "on_incomplete", typ: oneOf(tText, tSteps, tRef("on_incomplete")), sample: "{claude: /finish}", doc: "what to do below the threshold; continue: tell it and go on"},
	}
})

var onIncompleteTable = newTable("on_incomplete", "an on_incomplete", func() []field {
	return []field{
		{key: "commands", typ: tSteps, sample: "[{shell: finish}]", doc: "the steps"},
		{key: "claude", typ: tText, sample: "/finish", doc: "the step"},
		{key: "shell", typ: tText, sample: "finish", doc: "the step"},
		{key: "command", typ: tText, sample: "/finish", doc: "the same as claude"},
		{key: "prompt", typ: tText, sample: "'go on?'", doc: "a question on the terminal"},
		{key: "max_attempts", typ: tInt(1), sample: "3", doc: "how often it is repaired at most", def: "2"},
		{key: "fail_workflow", typ: tBool, sample: "false", doc: "a score that is missed to the end fails the step", def: "true"},
		{key: "commit_required", typ: tBool, sample: "true", doc: "the steps must commit"},
		{key: "retry_delay", typ: tDur, sample: "5s", doc: "between attempts; " + durDoc},
	}
})

var stepValidateTable = newTable("step_validate", "a step_validate", func() []field {
	return []field{
		{key: "commands", typ: tList(oneOf(tText, tRef("check_command"))), sample: "[{command: test -s out}]", doc: "the checks"},
		{key: "success_criteria", typ: oneOf(tEnum("all", "any"), tRef("criteria")), sample: "any", doc: "how many must end well", def: "all"},
		{key: "max_attempts", typ: tInt(1), sample: "2", doc: "how often the checks are made at most", def: "1"},
		{key: "retry_delay", typ: tDur, sample: "7", doc: "between attempts; " + durDoc, def: "5 s"},
		{key: "timeout", typ: tDur, sample: "30s", doc: "of the checks; " + durDoc},
		{key: "ignore_failure", typ: tBool, sample: "true", doc: "a failed check is only told"},
	}
})

var checkCommandTable = newTable("check_command", "a check", func() []field {
	return []field{
		{key: "command", typ: tText, sample: "test -s out", doc: "what runs"},
		{key: "shell", typ: tText, sample: "test -s out", doc: "the same as command"},
		{key: "claude", typ: tText, sample: "/check", doc: "an agent that checks"},
		{key: "expect_output", typ: tText, sample: "ok", doc: "a regular expression"},
		{key: "expect_exit_code", typ: tInt(0), sample: "1", doc: "the exit status of a check that ended well", def: "0"},
		{key: "command_type", typ: tEnum("shell", "claude"), sample: "claude", doc: "what command is"},
	}
})

var criteriaTable = newTable("criteria", "success_criteria", func() []field {
	return []field{
		{key: "at_least", typ: tInt(1), sample: "1", doc: "so many checks must end well"},
	}
})

var captureTable = newTable("capture", "a capture", func() []field {
	return []field{
		{key: "output", typ: tName, sample: "result", doc: "the variable"},
		{key: "format", typ: tEnum("string", "text", "json", "lines", "number", "boolean"), sample: "json", as: "capture_format"},
	}
})

var captureStreamsTable = newTable("capture_streams", "capture_streams", func() []field {
	return []field{
		{key: "stdout", typ: tBool, sample: "false", doc: "it is captured", def: "true"},
		{key: "stderr", typ: tBool, sample: "true", doc: "it is captured", def: "false"},
		{key: "exit_code", typ: tBool, sample: "false", doc: "it is captured", def: "true"},
		{key: "success", typ: tBool, sample: "false", doc: "it is captured", def: "true"},
		{key: "duration", typ: tBool, sample: "false", doc: "it is captured", def: "true"},
	}
})

var outputTable = newTable("output", "an output", func() []field {
	return []field{
		{key: "file_pattern", typ: tText, sample: "'*.md'", doc: "files that the step made"},
		{key: "json_path", typ: tText, sample: "$.name", doc: "a JSONPath into the step's output"},
		{key: "value", typ: tText, sample: "'${shell.output}'", doc: "a text"},
		{key: "extract_from", typ: oneOf(tText, tMap(tAny)), sample: "stdout", doc: "an older form: stdout, or {git_commit: {file_pattern: …}}", was: "*"},
	}
})

var commitTable = newTable("commit", "a commit_config", func() []field {
	return []field{
		{key: "message_template", typ: tText, sample: "'run ${workflow.name}'", doc: "the message"},
		{key: "message", typ: tText, sample: "step", as: "message_template"},
		{key: "message_pattern", typ: tText, sample: "'^[a-z]'", doc: "a regular expression that the message must match"},
		{key: "sign", typ: tBool, sample: "true", doc: "sign the commit"},
		{key: "author", typ: tText, sample: "'A <a@example.org>'", doc: "NAME <EMAIL>"},
		{key: "include_files", typ: tTexts, sample: "['*.go']", doc: "which files"},
		{key: "exclude_files", typ: tTexts, sample: "['*.log']", doc: "which files not"},
		{key: "squash", typ: tBool, sample: "true", doc: "one commit of all the step's commits"},
	}
})

var metadataTable = newTable("metadata", "metadata", func() []field {
	return []field{
		{key: "retries", typ: tInt(0), sample: "2", doc: "attempts after the first"},
		{key: "timeout", typ: tDur, sample: "30", doc: "of one attempt; " + durDoc},
		{key: "continue_on_error", typ: tBool, sample: "true", doc: "see the step's"},
		{key: "env", typ: tEnv, sample: "{A: b}", doc: "see the step's"},
		{key: "commit_required", typ: tBool, sample: "true", doc: "see the step's"},
		{key: "analysis", typ: tAny, sample: "{}", doc: "", inert: "the analysis does not exist any more"},
	}
})

var retryTable = newTable("retry", "a retry policy", func() []field { return optionFields(option.For(option.File)) })

var ruleTable = newTable("rule", "a rule", func() []field {
	on := field{key: "on", typ: tMatchers, sample: "rate_limit", doc: "which errors it is for"}
	return append([]field{on}, optionFields(option.For(option.InRule))...)
})

var backoffTable = newTable("backoff", "a backoff", func() []field {
	return []field{
		{key: "type", typ: tEnum("fixed", "linear", "exponential", "fibonacci", "custom"), sample: "linear", doc: "the strategy"},
		{key: "strategy", typ: tEnum("fixed", "linear", "exponential", "fibonacci", "custom"), sample: "linear", as: "type"},
		{key: "delay", typ: tDur, sample: "2s", doc: "in the place of initial_delay; " + durDoc},
		{key: "initial", typ: tDur, sample: "2s", doc: "in the place of initial_delay; " + durDoc},
		{key: "initial_delay", typ: tDur, sample: "2s", doc: "in the place of the policy's; " + durDoc},
		{key: "max", typ: tDur, sample: "1m", doc: "in the place of max_delay; " + durDoc},
		{key: "max_delay", typ: tDur, sample: "1m", doc: "in the place of the policy's; " + durDoc},
		{key: "increment", typ: tDur, sample: "2s", doc: "of linear; " + durDoc},
		{key: "base", typ: tNum(1, 0), sample: "3", doc: "of exponential"},
		{key: "multiplier", typ: tNum(1, 0), sample: "3", as: "base"},
		{key: "factor", typ: tNum(1, 0), sample: "3", as: "base"},
		{key: "delays", typ: tList(tDur), sample: "[1s, 3s]", doc: "of custom"},
	}
})

var fallbackTable = newTable("retry_failure", "a retry's on_failure", func() []field {
	return []field{
		{key: "fallback", typ: oneOf(tText, tRef("command")), sample: "{command: echo none}", doc: "a command that runs once in its place"},
	}
})

var commandTable = newTable("command", "a fallback", func() []field {
	return []field{
		{key: "command", typ: tText, sample: "echo none", doc: "the command"},
		{key: "shell", typ: tText, sample: "echo none", doc: "the same as command"},
	}
})

var matcherTable = newTable("matcher", "a matcher", func() []field {
	return []field{
		{key: "pattern", typ: tText, sample: "'try later'", doc: "a regular expression (RE2)"},
		{key: "exit_code", typ: oneOf(tInt(0), tList(tInt(0))), sample: "[75, 111]", doc: "exit statuses of the command"},
	}
})

var breakerTable = newTable("circuit_breaker", "a circuit_breaker", func() []field { return optionFields(option.BreakerTable()) })

var quotaTable = newTable("quota", "a quota", func() []field {
	return []field{
		{key: "name", typ: tName, sample: "api", doc: "what shares it"},
		{key: "ratio", typ: tNum(0, 0), sample: "0.2", doc: "retries for each success"},
		{key: "floor", typ: tNum(0, 0), sample: "5", doc: "retries that are there from the start"},
	}
})

var secsTable = newTable("seconds", "a span of time", func() []field {
	return []field{
		{key: "secs", typ: tNum(0, 0), sample: "1", doc: "seconds"},
		{key: "nanos", typ: tNum(0, 0), sample: "500000000", doc: "nanoseconds"},
	}
})

var envValueTable = newTable("env_value", "an environment variable", func() []field {
	return []field{
		{key: "value", typ: tText, sample: "a", doc: "its value"},
		{key: "secret", typ: tBool, sample: "true", doc: "it is never shown; only in the env of the whole file"},
		{key: "command", typ: tText, sample: "date", doc: "its value is the command's output"},
		{key: "cache", typ: tBool, sample: "false", doc: "beside command: run once"},
		{key: "condition", typ: tExpr, sample: "'${workflow.iteration}'", doc: "which of the two values"},
		{key: "when_true", typ: tText, sample: "a", doc: "its value where the condition holds"},
		{key: "when_false", typ: tText, sample: "b", doc: "its value where it does not"},
	}
})

var envFileTable = newTable("env_file", "an entry of env_files", func() []field {
	return []field{
		{key: "path", typ: tText, sample: ".env", doc: "the file"},
		{key: "required", typ: tBool, sample: "true", doc: "it is an error if the file is missing"},
	}
})

var secretTable = newTable("secret", "a secret", func() []field {
	return []field{
		{key: "provider", typ: tText, sample: "env", doc: "env, file, command or value"},
		{key: "key", typ: tText, sample: "TOKEN", doc: "the variable, file or command"},
		{key: "value", typ: tText, sample: "'${HOME}'", doc: "the value itself, in the place of provider and key"},
		{key: "secret", typ: tAny, sample: "true", doc: "", inert: "what stands under secrets is one"},
		{key: "version", typ: tAny, sample: "1", doc: "", inert: "none of the providers has versions"},
	}
})

var profileTable = newTable("profile", "a profile", func() []field {
	return []field{
		{key: "env", typ: tEnv, sample: "{LEVEL: debug}", doc: "its environment variables"},
		{key: "description", typ: tText, sample: "on the build server", doc: "for people"},
	}
})

var agentTable = newTable("agent", "an agent", func() []field {
	return []field{
		{key: "command", typ: oneOf(tText, tTexts), sample: "[helper, '${prompt}']", doc: "its command line; the prompt is the last argument where ${prompt} is missing"},
		{key: "output", typ: tEnum("text", "stream-json"), sample: "stream-json", doc: "what it prints", def: "text"},
		{key: "env", typ: tEnv, sample: "{A: b}", doc: "its environment variables"},
		{key: "skip_permissions", typ: tBool, sample: "true", doc: "it runs without asking for permissions; only the claude program can"},
		{key: "stdin", typ: tBool, sample: "true", doc: "the prompt goes to its standard input"},
	}
})
