package workflow_test

import (
	"fmt"
	"io/fs"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/workflow"
)

// files is a small file system for the composition of files.
type files map[string]string

func (f files) read(path string) ([]byte, error) {
	if s, ok := f[path]; ok {
		return []byte(s), nil
	}
	return nil, fmt.Errorf("%s: %w", path, fs.ErrNotExist)
}

var others = files{
	"other.yml": "name: other\ncommands: [{shell: echo other, id: build}]\n",
	"base.yml":  "env: {B: c}\ncommands: [{shell: echo base}]\n",
	"ci.yml":    "parameters: {optional: [{name: level}]}\ncommands: [{shell: 'echo ${level}'}]\n",
	"build.yml": "parameters: {optional: [{name: level}]}\ncommands: [{shell: 'echo ${level}'}]\n",
}

func parse(t testing.TB, src string) (*workflow.File, diag.List) {
	t.Helper()
	return workflow.Parse("flow.yml", []byte(src), workflow.Options{ReadFile: others.read, Sh: "bash"})
}

// inPlace puts a step, in flow style, into a place of a file.
func inPlace(place, step string) string {
	const shell = "{shell: a}"
	switch place {
	case "commands":
		return "commands: [" + step + "]"
	case "setup", "reduce", "merge", "finally":
		return "map: {input: [1], agent_template: [" + shell + "]}\n" + place + ": [" + step + "]"
	case "agent_template":
		return "map: {input: [1], agent_template: [" + step + "]}"
	case "on_failure":
		return "commands: [{shell: a, on_failure: {commands: [" + step + "]}}]"
	case "on_success":
		return "commands: [{shell: a, on_success: [" + step + "]}]"
	case "on_exit_code":
		return "commands: [{shell: a, on_exit_code: {7: [" + step + "]}}]"
	case "do":
		return "commands: [{foreach: {items: [a], do: [" + step + "]}}]"
	case "validate":
		return "commands: [{validate: {commands: [" + step + "]}}]"
	case "on_incomplete":
		return "commands: [{validate: {shell: a, on_incomplete: {commands: [" + step + "]}}}]"
	case "handlers":
		return "map: {input: [1], agent_template: [" + shell + "]}\nhandlers: {one: [" + step + "]}"
	}
	panic("no such place: " + place)
}

// besides are the keys that a key needs beside it to have an effect.
var besides = map[string]map[string]string{
	"block":         {"steps": "", "commands": ""},
	"on_failure":    {"commands": "", "steps": ""},
	"test":          {"shell": "", "command": ""},
	"check_command": {"shell": "", "claude": "", "command": ""},
	"step": {
		"do": "foreach: [a]", "parallel": "foreach: [a], do: [{shell: a}]", "max_items": "foreach: [a], do: [{shell: a}]", "min_items": "foreach: [a], do: [{shell: a}]",
		"with": "pipeline: flow.cst", "parameters": "pipeline: flow.cst", "args": "claude: /a", "inputs": "name: a", "skip_permissions": "claude: /a", "continue_session": "claude: /a",
		"skip_validation": "shell: a, step_validate: b", "validation_timeout": "shell: a, step_validate: b",
		"ignore_validation_failure": "shell: a, step_validate: b", "commit_config": "shell: a, auto_commit: true", "priority": "shell: zzz, limits: [gpu]",
	},
	"retry": {"increment": "backoff: linear", "delays": "backoff: custom", "jitter_factor": "jitter: true", "retry_budget_expires": "retry_budget: 5m"},
	"rule":  {"on": "", "increment": "on: network, backoff: linear", "delays": "on: network, backoff: custom", "jitter_factor": "on: network, jitter: true"},
	"circuit_breaker": {"window": "failure_rate: 0.5", "window_time": "failure_rate: 0.5", "window_time_ms": "failure_rate: 0.5", "window_time_secs": "failure_rate: 0.5", "min_calls": "failure_rate: 0.5",
		"slow_call": "slow_rate: 0.5", "slow_call_ms": "slow_rate: 0.5", "slow_call_secs": "slow_rate: 0.5", "slow_rate": "slow_call: 2s"},
	"backoff":         {"type": "", "strategy": "", "increment": "type: linear", "delays": "type: custom"},
	"env_value":       {"cache": "command: date", "when_true": "condition: ITERATION", "when_false": "condition: ITERATION", "condition": "when_true: a", "secret": "value: '${uuid}'"},
	"env_file":        {"path": ""},
	"goal_seek":       {"claude": "goal: a, validate: b", "command": "goal: a, validate: b", "do": "goal: a, validate: b", "shell": "goal: a, validate: b", "validate": "shell: a"},
	"probe":           {"increment": "backoff: linear", "delays": "backoff: custom"},
	"error_batch":     {"size": "type: batched", "type": "size: 7"},
	"secret":          {"provider": "key: A", "key": "provider: env", "version": "provider: env, key: A", "secret": "value: '${uuid}'"},
	"template":        {"name": "source: ci.yml", "with": "source: ci.yml", "override": "source: ci.yml"},
	"map_input":       {"format": "file: a"},
	"foreach":         {"foreach": "do: [{shell: a}]", "items": "do: [{shell: a}]", "list": "do: [{shell: a}]", "input": "do: [{shell: a}]", "do": "items: [a]", "commands": "items: [a]", "steps": "items: [a]"},
	"sub_workflow":    {"source": "", "path": ""},
	"inline_workflow": {"commands": "", "steps": "", "parameters": "steps: [{shell: y}], with: {level: 1}"},
	"agent":           {"first_of": ""},
	"parameter":       {"name": "", "required": "name: level, default: low"},
	"capture_output":  {"command_index": "", "command": "", "pattern": "command_index: 0"},
}

// contexts are files with a hole (%s) for the pairs of a table's map, and the
// pairs that are there where besides says nothing.
var contexts = map[string]struct{ file, beside string }{
	"workflow":        {"%s", ""},
	"block":           {"map: {input: seq 1 12, agent_template: [{shell: a}]}\nsetup: {%s}", "commands: [{shell: a}]"},
	"on_failure":      {"commands: [{shell: a, on_failure: {%s}}]", "shell: b"},
	"http":            {"commands: [{http: {%s}}]", "url: 'http://a'"},
	"write_file":      {"commands: [{write_file: {%s}}]", "path: a, content: b"},
	"foreach":         {"commands: [{foreach: {%s}}]", "items: [x], do: [{shell: b}]"},
	"goal_seek":       {"commands: [{goal_seek: {%s}}]", "shell: a, validate: b"},
	"test":            {"commands: [{test: {%s}}]", "command: a"},
	"validate":        {"commands: [{shell: x, validate: {%s}}]", "result_file: a.json"},
	"on_incomplete":   {"commands: [{validate: {shell: a, on_incomplete: {%s}}}]", "fail_workflow: true"},
	"step_validate":   {"commands: [{shell: x, step_validate: {%s}}]", "commands: [a, b]"},
	"check_command":   {"commands: [{shell: x, step_validate: {commands: [{%s}]}}]", "command: z"},
	"criteria":        {"commands: [{shell: x, step_validate: {commands: [a, b], success_criteria: {%s}}}]", ""},
	"capture_streams": {"commands: [{shell: x, capture: y, capture_streams: {%s}}]", ""},
	"output":          {"commands: [{shell: x, outputs: {y: {%s}}}]", ""},
	"commit":          {"commands: [{shell: x, auto_commit: {%s}}]", ""},
	"metadata":        {"commands: [{shell: x, metadata: {%s}}]", ""},
	"retry":           {"commands: [{shell: x, retry: {%s}}]", ""},
	"rule":            {"commands: [{shell: x, retry: {rules: [{%s}]}}]", "on: network"},
	"backoff":         {"commands: [{shell: x, retry: {backoff: {%s}}}]", "type: exponential"},
	"retry_failure":   {"commands: [{shell: x, retry: {on_failure: {%s}}}]", ""},
	"command":         {"commands: [{shell: x, retry: {on_failure: {fallback: {%s}}}}]", ""},
	"matcher":         {"commands: [{shell: x, retry: {retry_on: [{%s}]}}]", ""},
	"circuit_breaker": {"commands: [{shell: x, retry: {circuit_breaker: {%s}}}]", ""},
	"quota":           {"commands: [{shell: x, retry: {quota: {%s}}}]", ""},
	"seconds":         {"commands: [{shell: x, timeout: {%s}}]", ""},
	"env_value":       {"env: {A: {%s}}\ncommands: [{shell: x}]", ""},
	"env_file":        {"env_files: [{%s}]\ncommands: [{shell: x}]", "path: .env"},
	"secret":          {"secrets: {A: {%s}}\ncommands: [{shell: x}]", ""},
	"profile":         {"profiles: {ci: {%s}}\ncommands: [{shell: x}]", "env: {B: c}"},
	"agent":           {"agents: {helper: {%s}}\ncommands: [{shell: x}]", "command: [claude]"},
	"map":             {"map: {%s}", "input: seq 1 12, agent_template: [{shell: a}]"},
	"map_input":       {"map: {input: {%s}, agent_template: [{shell: a}]}", ""},
	"skip_unchanged":  {"map: {input: seq 1 12, agent_template: [{shell: a}], skip_unchanged: {%s}}", "files: [a]"},
	"evidence":        {"map: {input: seq 1 12, agent_template: [{shell: a}], evidence: {%s}}", "paths: [a]"},
	"merge_queue":     {"map: {input: seq 1 12, agent_template: [{shell: a}]}\nmerge_queue: {%s}", "verify: a"},
	"max_parallel":    {"map: {input: seq 1 12, agent_template: [{shell: a}], max_parallel: {%s}}", "min: 2"},
	"canary":          {"map: {input: seq 1 12, agent_template: [{shell: a}], canary: {%s}}", "items: 3"},
	"item_budget":     {"map: {input: seq 1 12, agent_template: [{claude: a}], item_budget: {%s}}", "time: 1m"},
	"timeout_config":  {"map: {input: seq 1 12, agent_template: [{shell: a}], timeout_config: {%s}}", "command_timeouts: {claude: 1}"},
	"error_policy":    {"map: {input: seq 1 12, agent_template: [{shell: a}]}\nerror_policy: {%s}", ""},
	"on_item_failure": {"map: {input: seq 1 12, agent_template: [{shell: a}]}\nhandlers: {tell: [{shell: a}]}\non_item_failure: {%s}", ""},
	"same_error":      {"map: {input: seq 1 12, agent_template: [{shell: a}]}\nerror_policy: {same_error: {%s}}", ""},
	"probe":           {"map: {input: seq 1 12, agent_template: [{shell: a}]}\nerror_policy: {same_error: {probe: {%s}}}", ""},
	"error_batch":     {"map: {input: seq 1 12, agent_template: [{shell: a}]}\nerror_collection: {%s}", ""},
	"capture":         {"commands: [{shell: a, capture: {%s}}]", "output: x"},
	"capture_output":  {"map: {input: seq 1 12, agent_template: [{shell: a}]}\nsetup: {commands: [{shell: a}, {shell: b}], capture_outputs: {x: {%s}}}", "command_index: 0"},
	"worktree":        {"isolation: worktree\nworktree: {%s}\ncommands: [{shell: x}]", ""},
	"import":          {"imports: [{%s}]\ncommands: [{shell: x}]", "path: other.yml"},
	"template":        {"template: {%s}\ncommands: [{shell: x}]", "source: ci.yml"},
	"template_source": {"template: {source: {%s}}\ncommands: [{shell: x}]", ""},
	"parameter_lists": {"parameters: {%s}\ncommands: [{shell: x}]", ""},
	"parameter":       {"parameters: {optional: [{%s}]}\ncommands: [{shell: x}]", "name: level"},
	"inline_workflow": {"templates: {check: {%s}}\ncommands: [{use: check}]", "steps: [{shell: y}]"},
	"step_input":      {"commands: [{name: a, inputs: {x: {%s}}}]", "from: b"},
	"sub_workflow":    {"workflows:\n  first: build.yml\n  build: {%s}\ncommands: [{shell: x}]", "source: build.yml"},
}

// holds reports whether the pairs have a key.
func holds(pairs, key string) bool {
	return strings.HasPrefix(pairs, key+":") || strings.Contains(pairs, ", "+key+":")
}

// source gives the file for a field, and the same without the field.
func source(f workflow.FieldInfo, place string) (with, without string) {
	beside, special := besides[f.Object][f.Key]
	pair := f.Key + ": " + f.Example
	if f.Object == "step" {
		isAction := strings.Contains(" shell claude http write_file foreach goal_seek test pipeline workflow use template analyze command handler validate ", " "+f.Key+" ")
		switch {
		case special:
		case isAction:
			return top(f, inPlace(place, "{"+pair+"}")), inPlace(place, "{shell: zzz}")
		default:
			beside = "shell: zzz"
		}
		return inPlace(place, "{"+beside+", "+pair+"}"), inPlace(place, "{"+beside+"}")
	}
	if f.Object == "workflow" {
		return fileWith(f)
	}
	c := contexts[f.Object]
	if !special {
		beside = c.beside
	}
	if holds(beside, f.Key) {
		beside = strings.TrimSuffix(drop(beside, f.Key), ", ")
	}
	all := pair
	if beside != "" {
		all = beside + ", " + pair
	}
	return fmt.Sprintf(c.file, all), fmt.Sprintf(c.file, beside)
}

// drop removes a pair whose value has no top-level comma.
func drop(pairs, key string) string {
	i := strings.Index(", "+pairs, ", "+key+":")
	depth := 0
	for j := i; j < len(pairs); j++ {
		switch pairs[j] {
		case '[', '{':
			depth++
		case ']', '}':
			depth--
		case ',':
			if depth == 0 {
				return pairs[:i] + strings.TrimSpace(pairs[j+1:])
			}
		}
	}
	return strings.TrimSuffix(pairs[:i], ", ")
}

// top adds what a step needs at the top of its file.
func top(f workflow.FieldInfo, src string) string {
	if f.Key == "workflow" {
		return "imports: [{path: other.yml}]\n" + src
	}
	if f.Key == "use" || f.Key == "template" {
		return "templates: {check: [{shell: y}]}\n" + src
	}
	return src
}

var mapOnly = map[string]bool{
	"setup": true, "map": true, "merge_queue": true, "reduce": true, "error_policy": true, "on_item_failure": true, "continue_on_failure": true, "max_failures": true,
	"failure_threshold": true, "error_collection": true, "circuit_breaker": true, "max_recoveries": true, "same_error": true, "max_parallel": true, "handlers": true,
}

func fileWith(f workflow.FieldInfo) (with, without string) {
	pair := f.Key + ": " + f.Example + "\n"
	base := "commands: [{shell: zzz}]\n"
	switch {
	case f.Key == "map":
		return pair, base
	case mapOnly[f.Key]:
		base = "map: {input: seq 1 12, agent_template: [{shell: zzz}]}\n"
	case f.Key == "commands" || f.Key == "steps" || f.Key == "workflow":
		return pair, base
	case f.Key == "worktree" || f.Key == "auto_commit":
		base += "isolation: worktree\n"
	case f.Key == "active_profile":
		base += "profiles: {ci: {A: b}}\n"
	}
	return pair + base, base
}

// TestEveryFieldInEveryPlace parses each key of the language with its example,
// step keys in every place where steps are, and asks that it is understood
// and that it changes the model.
func TestEveryFieldInEveryPlace(t *testing.T) {
	for _, f := range workflow.Fields() {
		places := f.Places
		if places == nil {
			places = []string{""}
		}
		for _, place := range places {
			t.Run(strings.Trim(f.Object+"/"+f.Key+"/"+place, "/"), func(t *testing.T) {
				with, without := source(f, place)
				file, problems := parse(t, with)
				checkField(t, f, with, file, problems)
				plain, _ := parse(t, without)
				if f.Inert == "" && !noModel[f.Object+"."+f.Key] && sameModel(file, plain) {
					t.Errorf("the key changes nothing in the model:\n%s\nand\n%s", with, without)
				}
			})
		}
	}
}

// noModel are keys that are not in the model: what they say is used while loading.
var noModel = map[string]bool{
	"workflow.mode": true, "workflow.templates": true, "step.handler": true, "step.analyze": true, "profile.description": true, "profile.env": true,
	"template.name": true, "import.alias": true, "parameter.name": true, "parameter.validation": true, "parameter.enum": true, "parameter.required": true,
	"parameter_lists.required": true, "step.skip_validation": false, "on_item_failure.custom": true, "step.options": true, "error_batch.type": true,
	"sub_workflow.source": true, "sub_workflow.path": true, "import.selective": true,
	"on_incomplete.fail_workflow": false, "validate.result_file": false,
}

func checkField(t *testing.T, f workflow.FieldInfo, src string, file *workflow.File, problems diag.List) {
	t.Helper()
	if f.Key == "handler" {
		if !problems.HasErrors() {
			t.Errorf("no error for a handler in\n%s", src)
		}
		return
	}
	inert := false
	for _, p := range problems {
		switch {
		case p.Code == "missing-parameter" && f.Key == "required":
		case p.Code == "asked-without-conflict": // of the place, not of the key
		case p.Code == "no-effect" && f.Inert != "":
			inert = true
		case p.Code == "bad-filter", p.Code == "no-effect" && f.Key == "jitter_factor":
			t.Errorf("%v in\n%s", p, src)
		default:
			t.Errorf("%v in\n%s", p, src)
		}
	}
	if f.Inert != "" && !inert {
		t.Errorf("no warning about the key without effect in\n%s", src)
	}
	if file == nil {
		t.Fatalf("nothing understood of\n%s", src)
	}
}

// sameModel compares two files without places and sources.
func sameModel(a, b *workflow.File) bool { return dump(a) == dump(b) }

func dump(f *workflow.File) string {
	var b strings.Builder
	dumpValue(&b, reflect.ValueOf(f), 0)
	return b.String()
}

func dumpValue(b *strings.Builder, v reflect.Value, depth int) {
	if depth > 40 {
		b.WriteString("…")
		return
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			b.WriteString("nil")
			return
		}
		if v.Type().Kind() == reflect.Pointer && v.CanInterface() {
			if s, ok := v.Interface().(fmt.Stringer); ok {
				fmt.Fprintf(b, "%T(%s)", v.Interface(), s)
				return
			}
		}
		b.WriteString(v.Elem().Type().String())
		dumpValue(b, v.Elem(), depth+1)
	case reflect.Struct:
		b.WriteString("{")
		for i := range v.NumField() {
			name := v.Type().Field(i).Name
			if !v.Type().Field(i).IsExported() || name == "Pos" || v.Type() == reflect.TypeFor[workflow.File]() && (name == "Source" || name == "Others") {
				continue
			}
			b.WriteString(name + ":")
			dumpValue(b, v.Field(i), depth+1)
			b.WriteString(" ")
		}
		b.WriteString("}")
	case reflect.Slice:
		for i := range v.Len() {
			dumpValue(b, v.Index(i), depth+1)
			b.WriteString(",")
		}
	case reflect.Map:
		for _, line := range strings.Split(fmt.Sprint(v.Len()), "\n") {
			b.WriteString(line)
		}
		keys := v.MapKeys()
		lines := make([]string, len(keys))
		for i, k := range keys {
			var s strings.Builder
			fmt.Fprint(&s, k)
			dumpValue(&s, v.MapIndex(k), depth+1)
			lines[i] = s.String()
		}
		slices.Sort(lines)
		b.WriteString(strings.Join(lines, ","))
	case reflect.Func:
		fmt.Fprint(b, v.IsNil())
	default:
		fmt.Fprint(b, v)
	}
}

// TestEveryFieldIsLookedAt gives each key a value of a form that it cannot
// have: a problem at that value shows that the parser reads it.
func TestEveryFieldIsLookedAt(t *testing.T) {
	anything := map[string]bool{ // keys that take whatever there is
		"capture_output.default": true, "parameter.default": true, "http.body": true, "http.json": true,
		"parameter.enum": true, "map.input": true, "step.foreach": true, "step.handler": true, "step.analyze": true,
		"foreach.foreach": true, "foreach.items": true, "foreach.list": true, "foreach.input": true,
	}
	for _, f := range workflow.Fields() {
		if f.Inert != "" || anything[f.Object+"."+f.Key] {
			continue
		}
		t.Run(f.Object+"/"+f.Key, func(t *testing.T) {
			f.Example = "[[{zz-wrong: [1]}]]"
			place := ""
			if len(f.Places) > 0 {
				place = f.Places[0]
			}
			src, _ := source(f, place)
			_, problems := parse(t, src)
			if !problems.HasErrors() {
				t.Errorf("no error for a nonsensical value in\n%s\n%v", src, problems)
			}
			for _, p := range problems {
				if p.Suggestion == "" {
					t.Errorf("no suggestion: %v", p)
				}
				if !p.IsValid() {
					t.Errorf("no place: %v", p)
				}
			}
		})
	}
}

// TestDefaultsStandInTheirColumn: what holds where a key is missing is a part of the
// table, from which the reference, the schema and the editor have it, and no prose.
func TestDefaultsStandInTheirColumn(t *testing.T) {
	prose := regexp.MustCompile(`where missing|by default|\bdefaults? to\b`)
	for _, f := range workflow.Fields() {
		if prose.MatchString(f.Doc) {
			t.Errorf("%s.%s tells its default in words: %s", f.Object, f.Key, f.Doc)
		}
	}
	if !strings.Contains(string(workflow.Schema()), "where missing: 10") {
		t.Error("the schema does not tell defaults")
	}
}
