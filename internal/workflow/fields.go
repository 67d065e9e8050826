package workflow

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/bide-dev/bide/internal/duration"
	"github.com/bide-dev/bide/internal/expr"
	"github.com/bide-dev/bide/internal/option"
	"github.com/bide-dev/bide/internal/policy"
	"github.com/bide-dev/bide/internal/template"
)

// FieldInfo is one key of the language, for reference pages and for tests.
type FieldInfo struct {
	Object  string   // the map it stands in: "step", "map", "retry", …
	Key     string   //
	Doc     string   //
	Kind    string   // the form of its value, in words: "whole number", "list of steps"
	Bounds  string   // of a number: "1 or more"; "" for most
	Default string   // what holds where the key is missing; "" where nothing does
	Example string   // a value that is accepted, in flow style
	Places  []string // for fields of a step: where the step may stand
	Inert   string   // why the key has no effect; "" for most
	Present string   // the key whose older spelling this one is; "" for most
}

// Places are the places in which steps stand. Every field of a step works in
// each of them.
var Places = []string{
	"commands", "setup", "agent_template", "reduce", "merge", "finally",
	"on_failure", "on_success", "on_exit_code", "do", "validate", "on_incomplete", "handlers",
}

// Fields lists every key that the parser knows, table by table.
func Fields() []FieldInfo {
	var all []FieldInfo
	for _, t := range tables {
		for _, f := range t.fields() {
			info := FieldInfo{Object: t.name, Key: f.key, Kind: f.typ.kind(), Bounds: f.typ.bounds(), Default: f.def, Doc: f.doc, Example: f.sample, Inert: f.inert}
			// Above all tables of the reference stands what a span of time is.
			if plain, ok := strings.CutSuffix(f.doc, durDoc); ok {
				info.Doc = strings.TrimRight(plain, "; ")
			} else if plain, ok := strings.CutSuffix(f.doc, " "+capital(durDoc)+"."); ok {
				info.Doc = plain
			}
			if same, ok := strings.CutPrefix(f.doc, "the same as "); ok {
				name, _, _ := strings.Cut(same, ", in ")
				if _, here := t.field(name); here {
					info.Present = name
				}
			}
			if t == stepTable {
				info.Places = slices.Clone(Places)
			}
			all = append(all, info)
		}
	}
	return all
}

// SameKey reports whether two keys are spellings of one, in some map of the language.
func SameKey(a, b string) bool {
	for _, t := range tables {
		if f, ok := t.field(a); ok {
			if f.as != "" && f.read == nil {
				f, _ = t.field(f.as)
			}
			if f != nil && slices.Contains(f.spellings, a) && slices.Contains(f.spellings, b) {
				return true
			}
		}
	}
	return false
}

// optionFields are the keys by which a map may have some options.
func optionFields(rows []*option.Row) []field {
	var fs []field
	for _, r := range rows {
		doc := r.Doc
		if r.Kind == option.Span {
			doc += " " + capital(durDoc) + "."
		}
		for i, key := range r.Spellings() {
			f := field{key: key, typ: optionType(r), sample: r.Example, doc: doc, def: r.Default}
			switch {
			case strings.HasSuffix(key, "_ms"):
				f.sample, f.doc = "5000", "the same as "+r.Name+", in milliseconds"
			case strings.HasSuffix(key, "_secs"):
				f.sample, f.doc = "5", "the same as "+r.Name+", in seconds"
			case i > 0:
				f.as = r.Name
			}
			fs = append(fs, f)
		}
	}
	return fs
}

func capital(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

const (
	durDoc     = "a span of time: 500ms, 30s, 1h30m; a bare number is in seconds"
	patternDoc = "a pattern, in which * matches no slash and no dot at the beginning of a name, and ** any number of directories"
	inertNoted = "it is accepted so that existing files run, and does nothing"
)

// tables is every table, in the order of the reference.
var tables []*table

func init() {
	tables = []*table{
		fileTable.of(fileFields), blockTable.of(blockFields), stepTable.of(stepFields), handlerTable.of(handlerFields), httpTable.of(httpFields), writeFileTable.of(writeFileFields), foreachTable.of(foreachFields), goalSeekTable.of(goalSeekFields), testTable.of(testFields),
		validateTable.of(validateFields), onIncompleteTable.of(onIncompleteFields), stepValidateTable.of(stepValidateFields), checkCommandTable.of(checkCommandFields), criteriaTable.of(criteriaFields),
		captureTable.of(captureFields), captureStreamsTable.of(captureStreamsFields), outputTable.of(outputFields), commitTable.of(commitFields), metadataTable.of(metadataFields), retryTable.of(retryFields), ruleTable.of(ruleFields), backoffTable.of(backoffFields), fallbackTable.of(fallbackFields), commandTable.of(commandFields),
		matcherTable.of(matcherFields), breakerTable.of(breakerFields), quotaTable.of(quotaFields), secsTable.of(secsFields), envValueTable.of(envValueFields), envFileTable.of(envFileFields), secretTable.of(secretFields), profileTable.of(profileFields), agentTable.of(agentFields),
		worktreeTable.of(worktreeFields), mapTable.of(mapFields), inputTable.of(inputFields), unchangedTable.of(unchangedFields), canaryTable.of(canaryFields), budgetTable.of(budgetFields), widthTable.of(widthFields), evidenceTable.of(evidenceFields), queueTable.of(queueFields), timeoutTable.of(timeoutFields), errorPolicyTable.of(errorPolicyFields), sameErrorTable.of(sameErrorFields), probeTable.of(probeFields), customTable.of(customFields), batchTable.of(batchFields), captureOutputTable.of(captureOutputFields),
		importTable.of(importFields), templateTable.of(templateFields), templateSourceTable.of(templateSourceFields), paramTable.of(paramFields), paramListTable.of(paramListFields), subWorkflowTable.of(subWorkflowFields), inlineTable.of(inlineFields), stepInputTable.of(stepInputFields),
	}
}

var fileTable = newTable("workflow", "a workflow")

func fileFields() []field {
	return slices.Concat([]field{
		{key: "name", typ: tName, sample: "nightly", doc: "the workflow's name",
			into: either(of(func(f *File) *string { return &f.Name }), of(func(n *fileName) *written { return &n.written }))},
		{key: "description", typ: tText, sample: "what it is for", doc: "for people",
			into: of(func(f *File) *string { return &f.Description })},
		{key: "mode", typ: tEnum("standard", "sequential", "normal", "none", "mapreduce", "MapReduce"), sample: "standard", def: "by the other keys", doc: "the shape",
			into: of(func(x *fileShape) *written { return &x.mode })},
		{key: "commands", composed: before, typ: tSteps, sample: "[{shell: make}]", doc: "the steps of a standard workflow",
			into: of(func(x *fileSteps) *written { return &x.list })},
		{key: "steps", typ: tSteps, sample: "[{shell: make}]", as: "commands", was: "*"},
		{key: "setup", composed: before, typ: tBlock, sample: "[{shell: make items}]", doc: "steps before the map",
			into: either(of(func(x *fileSteps) *written { return &x.setup }), of(func(x *mapParts) *written { return &x.setup }))},
		{key: "map", typ: tRef("map"), sample: "{input: items.json, agent_template: [{shell: make}]}", doc: "the map phase",
			into: of(func(x *fileShape) *written { return &x.phase })},
		{key: "reduce", composed: before, typ: tBlock, sample: "[{shell: make report}]", doc: "steps after the map",
			into: of(func(x *mapParts) *written { return &x.reduce })},
		{key: "merge", composed: before, typ: tBlock, sample: "[{shell: git fetch}]", doc: "steps that merge the run's branch",
			into: of(func(x *fileLast) *written { return &x.merge })},
		{key: "merge_queue", typ: tRef("merge_queue"), sample: "{verify: make test}", doc: "what items did is merged several at a time, and verified as merged before it counts; what breaks the merge is found, and left out",
			into: of(func(x *mapParts) **node { return &x.queue })},
		{key: "finally", composed: before, typ: tBlock, sample: "[{shell: notify}]", doc: "steps that follow the end of the run, also where it failed, in the directory where it was started; ${workflow.status}, ${workflow.message}",
			into: of(func(x *fileLast) *written { return &x.finally })},
		{key: "worktree", typ: tRef("worktree"), sample: "{copy: [.env]}", doc: "how git worktrees of the run and of its agents are prepared",
			read: by(func(o *object, key string, n *node, f *File) { f.Worktree = o.d.worktree(n) })},
		{key: "env", typ: tFileEnv, sample: "{PORT: 8080}", doc: "environment variables",
			into: of(func(x *fileVars) *written { return &x.env })},
		{key: "env_files", composed: before, typ: oneOf(tText, tList(oneOf(tText, tRef("env_file")))), sample: "[.env]", doc: "files of NAME=value lines, relative to the workflow file; one that is missing is left out",
			into: of(func(x *fileVars) *written { return &x.files })},
		{key: "secrets", typ: tMap(oneOf(tText, tRef("secret"))), sample: "{TOKEN: '${env:TOKEN}'}", doc: "values that are never shown; one that is written in the file itself is not recorded, so a resume reads it from the file again",
			into: of(func(x *fileVars) *written { return &x.secrets })},
		{key: "profiles", typ: tMap(tMap(tAny)), sample: "{ci: {LEVEL: debug}}", doc: "sets of environment variables, chosen with --profile", was: "*",
			into: of(func(x *fileVars) *written { return &x.profiles })},
		{key: "active_profile", typ: tName, sample: "ci", doc: "the profile where --profile names none", was: "*",
			into: of(func(x *fileVars) *written { return &x.profile })},
		{key: "agents", native: true, typ: tMap(oneOf(tRef("agent"), tTexts)), sample: "{helper: {command: [helper, '${prompt}']}}", doc: "other agent command lines",
			into: of(func(x *fileFirst) *written { return &x.agents })},
		{key: "handlers", native: true, typ: tMap(oneOf(tSteps, tRef("step"))), sample: "{tell: [{shell: notify}]}", doc: "handlers for on_item_failure: {custom: NAME}",
			read: by(func(o *object, key string, n *node, _ *mapParts) { o.d.file.Handlers = o.d.handlers(n, key) })},
	}, policyFields(), []field{
		{key: "retry", typ: tRetry, sample: "{attempts: 5}", as: "retry_config", was: "*"},
		{key: "retry_config", typ: tRetry, sample: "{attempts: 5}", doc: "of items in a MapReduce workflow, else the same as retry_defaults", was: "*",
			into: of(func(x *fileSteps) *written { return &x.retry })},
		{key: "retry_defaults", typ: tRetry, sample: "{attempts: 5}", doc: "the retry policy of every step, field by field", was: "*",
			into: of(func(x *fileFirst) *written { return &x.retry })},
		{key: "timeout", typ: tBound, sample: "1h", doc: "of the whole run; " + durDoc, was: "*",
			into: of(func(f *File) *Duration { return &f.Timeout })},
		{key: "timeout_secs", typ: tBound, sample: "3600", as: "timeout", was: "*"},
		{key: "max_iterations", typ: tInt(1), sample: "3", def: "1", doc: "how often the steps run", was: "*",
			into: of(func(f *File) *int { return &f.MaxIterations })},
		{key: "max_parallel", typ: tWidth, sample: "4", def: "10", doc: "of the map, where map says nothing", was: "*",
			into: of(func(x *mapKeys) *written { return &x.width })},
		{key: "isolation", native: true, typ: tEnum("auto", "worktree", "none"), sample: "none", doc: "where the run works", def: "auto",
			into: of(func(f *File) *string { return &f.Isolation })},
		{key: "auto_commit", native: true, typ: tBool, sample: "false", doc: "in a git worktree of the run: what the steps leave uncommitted is committed at the end of the item, or of the run, and merged", def: "true",
			read: by(func(o *object, key string, n *node, f *File) {
				yes, ok := o.d.flag(o, o.d.resolved(n), key)
				if f.NoAutoCommit = ok && !yes; f.NoAutoCommit {
					o.d.noAutoCommit = n.pos
				}
			})},
		{key: "durability", native: true, typ: tEnum("grouped", "strict"), sample: "strict", doc: "how soon records are on the disk", def: "grouped",
			into: of(func(f *File) *string { return &f.Durability })},
		{key: "skip_permissions", typ: tBool, sample: "true", doc: "agents run without asking for permissions", was: "*",
			into: of(func(f *File) *bool { return &f.SkipPermissions })},
		{key: "start_delay", native: true, typ: tDur, sample: "2s", def: "0s", doc: "between the starts of agents; " + durDoc,
			into: of(func(f *File) *Duration { return &f.StartDelay })},
		{key: "max_cost", native: true, typ: tNum(0, 0), sample: "10", doc: "dollars that agents may cost before no new item starts",
			into: of(func(f *File) *float64 { return &f.MaxCost })},
		{key: "max_tokens", native: true, typ: tInt(1), sample: "100000", doc: "tokens that agents may use before no new item starts",
			into: of(func(f *File) *int64 { return &f.MaxTokens })},
		{key: "max_wait", native: true, typ: tBound, sample: "1h", doc: "the longest pause for a rate limit; " + durDoc, def: "6h",
			into: of(func(f *File) *Duration { return &f.MaxWait })},
		{key: "allow_failed_items", native: true, typ: tBool, sample: "true", doc: "failed items do not change the exit status",
			into: of(func(f *File) *bool { return &f.AllowFailedItems })},
		{key: "imports", composed: ofOneFile, typ: tList(oneOf(tText, tRef("import"))), sample: "[{path: other.yml}]", doc: "other files: a step calls one by its name; else its steps come before those of this file, and its other values hold where this file has none",
			into: of(func(x *composedOf) *written { return &x.imports })},
		{key: "extends", composed: ofOneFile, typ: tText, sample: "base.yml", doc: "a file whose values hold where this one has none; maps are merged, lists are replaced",
			into: of(func(x *composedOf) *written { return &x.extends })},
		{key: "template", composed: ofOneFile, typ: oneOf(tText, tRef("template")), sample: "{name: ci, source: ci.yml}", doc: "a file with parameters that this one fills",
			into: of(func(x *composedOf) *written { return &x.template })},
		{key: "workflow", typ: oneOf(tSteps, tRef("workflow")), sample: "{commands: [{shell: make}]}", doc: "an older form: the whole workflow, one level deeper",
			into: of(func(x *fileShape) *written { return &x.wrapped })},
		{key: "templates", typ: tMap(oneOf(tSteps, tRef("inline_workflow"))), sample: "{check: {steps: [{shell: make}]}}", doc: "steps by name, with parameters, for `use:` steps", was: "*",
			into: of(func(f *File) *written { return &f.templates })},
		{key: "parameters", composed: addParams, typ: oneOf(tRef("parameter_lists"), tMap(tAny), tList(oneOf(tText, tRef("parameter")))), sample: "{optional: [{name: level, type: string, default: low}]}", doc: "values that --param sets",
			into: of(func(x *composedOf) *written { return &x.parameters })},
		{key: "defaults", typ: tMap(tAny), sample: "{level: low}", doc: "default values of parameters",
			into: of(func(x *composedOf) *written { return &x.defaults })},
		{key: "variables", typ: tMap(tAny), sample: "{level: low}", doc: "values known in the whole file", was: "*",
			into: of(func(x *composedOf) *written { return &x.variables })},
		{key: "workflows", typ: tMap(oneOf(tText, tSteps, tRef("sub_workflow"))), sample: "{build: {source: build.yml}}", doc: "workflows that run before the steps", was: "*",
			into: of(func(f *File) *written { return &f.subs })},
		{key: "sub_workflows", typ: tMap(oneOf(tText, tSteps, tRef("sub_workflow"))), sample: "{build: {source: build.yml}}", as: "workflows", was: "*"},
		{key: "version", typ: tAny, sample: "1", doc: "of the file's author", inert: inertNoted},
		{key: "author", typ: tAny, sample: "me", doc: "of the file", inert: inertNoted},
		{key: "tags", typ: tAny, sample: "[a]", doc: "for people", inert: inertNoted},
		{key: "checkpoint", typ: tAny, sample: "true", doc: "", inert: "every run is recorded and can be resumed without it"},
		{key: "agent_merge", typ: tAny, sample: "auto", doc: "", inert: "agents' branches are merged one after another in any case"},
		{key: "iterate", typ: tAny, sample: "true", doc: "", inert: "max_iterations says how often the steps run"},
		{key: "parallel", typ: tAny, sample: "2", doc: "", inert: "steps run one after another; a foreach or a map runs in parallel"},
	})
}

// policyFields are error_policy and its keys, which may also be beside it.
func policyFields() []field {
	return []field{
		{key: "error_policy", typ: tRef("error_policy"), sample: "{max_failures: 5}", doc: "what becomes of failed items", was: "*",
			into: of(func(x *policyMap) **node { return &x.n })},
		{key: "on_item_failure", typ: tOnItem, sample: "stop", doc: "see error_policy", def: "dlq", was: "*"},
		{key: "continue_on_failure", typ: tBool, sample: "false", def: "true", doc: "see error_policy", was: "*"},
		{key: "max_failures", typ: tInt(0), sample: "5", def: "0", doc: "see error_policy", was: "*"},
		{key: "failure_threshold", typ: tNum(0, 1), sample: "0.2", doc: "see error_policy", was: "*"},
		{key: "error_collection", typ: tCollection, sample: "immediate", def: "aggregate", doc: "see error_policy", was: "*"},
		{key: "circuit_breaker", typ: tRef("circuit_breaker"), sample: "{failure_threshold: 5}", doc: "see error_policy", was: "*"},
		{key: "max_recoveries", native: true, typ: tInt(1), sample: "2", doc: "see error_policy", def: "5"},
		{key: "same_error", native: true, typ: oneOf(tBool, tRef("same_error")), sample: "true", def: "false", doc: "see error_policy"},
	}
}

var blockTable = newTable("block", "a block of steps")

func blockFields() []field {
	return []field{
		{key: "commands", typ: tSteps, sample: "[{shell: make}]", doc: "the steps",
			into: of(func(x *blockSteps) *written { return &x.list })},
		{key: "steps", typ: tSteps, sample: "[{shell: make}]", as: "commands"},
		{key: "timeout", typ: tBound, sample: "5m", doc: "of all the steps together; " + durDoc,
			into: of(func(b *Block) *Duration { return &b.Timeout })},
		{key: "timeout_secs", typ: tBound, sample: "300", as: "timeout"},
		{key: "capture_outputs", typ: tMap(oneOf(tInt(0), tText, tRef("capture_output"))), sample: "{files: 0}", doc: "variables out of the steps' outputs; setup only",
			into: of(func(x *blockOutputs) *written { return &x.written })},
	}
}

var worktreeTable = newTable("worktree", "a worktree")

func worktreeFields() []field {
	return []field{
		{key: "copy", typ: tTexts, sample: "[.env]", doc: "files and directories that git ignores, relative to where the run works; each may be " + patternDoc + "; a missing one is reported",
			read: by(func(o *object, key string, n *node, w *Worktree) { w.Copy = o.d.copies(o.stringsAt(n, key)) })},
		{key: "setup", typ: tText, sample: "npm ci", doc: "a shell text that runs in each new worktree, after the copies; it leaves only what git ignores",
			into: of(func(w *Worktree) **template.Text { return &w.Setup })},
	}
}

var canaryTable = newTable("canary", "a canary")

func canaryFields() []field {
	return []field{
		{key: "items", typ: tInt(1), sample: "3", doc: fmt.Sprintf("how many items run alone, at most %d", policy.MaxCanaries),
			into: of(func(c *policy.Canary) *int { return &c.Items })},
		{key: "need", typ: tInt(1), sample: "2", doc: "how many of them must succeed before others start", def: "all",
			into: of(func(c *policy.Canary) *int { return &c.Need })},
	}
}

var budgetTable = newTable("item_budget", "an item_budget")

func budgetFields() []field {
	return []field{
		{key: "cost", typ: tAbove(0, 0), sample: "0.50", doc: "dollars that the agents of an item may cost; of agents that tell what they cost",
			into: of(func(b *budgetBounds) *float64 { return &b.Cost })},
		{key: "tokens", typ: tTokens, sample: "200k", doc: "tokens that the agents of an item may use, those of caches too; k is a thousand, M a million",
			read: by(func(o *object, key string, n *node, b *budgetBounds) {
				b.Tokens, o.d.itemTokens = o.d.tokens(n, key), o.keyNode(key)
			})},
		{key: "time", typ: tBound, sample: "20m", doc: "how long commands, requests and agents of an item may run in all its attempts; nothing that it waits for counts; " + durDoc,
			read: by(func(o *object, key string, n *node, b *budgetBounds) { b.Time = o.d.budgetTime(n, key) })},
		{key: "on_exceeded", typ: tEnum("dlq", "skip", "stop"), sample: "skip", doc: "what becomes of the item, which has failed: dlq (on_item_failure holds), skip (it is left out), stop (as dlq, and the map stops)", def: "dlq",
			into: of(func(b *ItemBudget) *string { return &b.OnExceeded })},
	}
}

var widthTable = newTable("max_parallel", "a max_parallel")

func widthFields() []field {
	return []field{
		{key: "min", typ: tInt(1), sample: "2", doc: fmt.Sprintf("how many run at once at least, and to begin with; at most %d", policy.MostWidth), def: "1, and as many as there are processors to begin with",
			into: of(func(c *policy.Adaptive) *int { return &c.Min })},
		{key: "max", typ: tInt(1), sample: "32", doc: fmt.Sprintf("how many run at once at most; at most %d", policy.MostWidth), def: "64",
			into: of(func(c *policy.Adaptive) *int { return &c.Max })},
	}
}

var evidenceTable = newTable("evidence", "the evidence of items")

func evidenceFields() []field {
	return []field{
		{key: "checks", typ: tSteps, sample: "['make test']", doc: "steps that run on what an item has committed, in its worktree, when its own steps have ended; each must succeed, also on what the items start from",
			read: by(func(o *object, key string, n *node, e *Evidence) {
				e.Checks = o.d.steps(n, "map.evidence.checks", bareShell)
			})},
		{key: "paths", typ: tTexts, sample: "['src/**']", doc: "patterns of all files that an item may change, relative to the top of the repository", def: "any",
			read: by(func(o *object, key string, n *node, e *Evidence) { e.Paths = o.d.pathPatterns(o.stringsAt(n, key)) })},
		{key: "protect", typ: tTexts, sample: "['**/*_test.go']", doc: "patterns of files that an item must not change, whatever paths says",
			read: by(func(o *object, key string, n *node, e *Evidence) { e.Protect = o.d.pathPatterns(o.stringsAt(n, key)) })},
	}
}

var queueTable = newTable("merge_queue", "a merge queue")

func queueFields() []field {
	return []field{
		{key: "verify", typ: oneOf(tText, tSteps), sample: "make test", doc: "a command or steps, each of which must succeed in a worktree that has the merge", def: "the checks of map.evidence",
			into: of(func(x *queueVerify) *written { return &x.written })},
		{key: "batch", typ: tInt(1), sample: "16", doc: "how many items are verified together, at most", def: "8",
			into: of(func(q *MergeQueue) *int { return &q.Batch })},
		{key: "order", typ: tEnum("ended", "index"), sample: "index", doc: "which items are merged first: those that ended first, or those that stand first in the list", def: "ended",
			into: of(func(q *MergeQueue) *string { return &q.Order })},
		{key: "flaky", typ: tInt(0), sample: "2", doc: "how often a verify that fails is run again before it is believed", def: "1",
			into: of(func(q *MergeQueue) *int { return &q.Flaky })},
		{key: "resolve", typ: tSteps, sample: "[{claude: 'resolve the conflict in ${merge.file_list}'}]", doc: "steps that resolve a conflict, as those of merge do", def: "those of merge",
			read: by(func(o *object, key string, n *node, q *MergeQueue) { q.Resolve = o.d.resolving(n) })},
	}
}

var captureOutputTable = newTable("capture_output", "a captured output")

func captureOutputFields() []field {
	return []field{
		{key: "command_index", typ: tInt(0), sample: "1", def: "0", doc: "which step, from 0",
			into: of(func(c *CaptureOutput) *int { return &c.Command })},
		{key: "command", typ: tInt(0), sample: "1", as: "command_index"},
		{key: "source", typ: tEnum("stdout", "stderr", "both", "combined"), sample: "stderr", def: "stdout", doc: "which output",
			into: of(func(c *CaptureOutput) *string { return &c.Source })},
		{key: "pattern", typ: tText, sample: "'v(.*)'", doc: "a regular expression; its first group, else the whole match",
			into: of(func(c *CaptureOutput) **regexp.Regexp { return &c.Pattern })},
		{key: "json_path", typ: tPath, sample: "$.items", doc: "a JSONPath (RFC 9535)",
			into: of(func(c *CaptureOutput) *string { return &c.JSONPath })},
		{key: "max_size", typ: tInt(1), sample: "1000", doc: "in bytes", def: "1048576",
			into: of(func(c *CaptureOutput) *int { return &c.MaxSize })},
		{key: "format", typ: tFormat, sample: "number", def: "string", doc: "how the text is read",
			into: of(func(c *CaptureOutput) *string { return &c.Format })},
		{key: "default", typ: tAny, sample: "none", doc: "the value where there is none",
			into: of(func(x *captureDefault) *orNull { return &x.orNull })},
		{key: "multiline", typ: tEnum("preserve", "join", "first_line", "last_line", "array"), sample: "join", def: "preserve", doc: "what becomes of several lines",
			into: of(func(c *CaptureOutput) *string { return &c.Multiline })},
	}
}

var mapTable = newTable("map", "the map phase")

func mapFields() []field {
	return slices.Concat([]field{
		{key: "input", typ: tInput, sample: "items.json", doc: "a file, a command or a list of items",
			into: of(func(x *mapKeys) *written { return &x.input })},
		{key: "input_type", typ: tEnum("file", "command", "json", "jsonl", "csv", "lines"), sample: "json", def: "by its form", doc: "what input is, where its form does not tell",
			into: of(func(m *Map) *string { return &m.InputKind })},
		{key: "json_path", typ: tPath, sample: "'$.items[*]'", doc: "a JSONPath (RFC 9535) to the items",
			into: of(func(m *Map) *string { return &m.JSONPath })},
		{key: "filter", typ: tExpr, sample: "score >= 5", def: "all", doc: "which items",
			into: of(func(m *Map) **expr.Expr { return &m.Filter })},
		{key: "sort_by", typ: tText, sample: "'score DESC, name'", def: "as the input has them", doc: "their order",
			into: of(func(x *mapKeys) *written { return &x.sort })},
		{key: "distinct", typ: tText, sample: "item.path", doc: "one item for each value of this field", was: "*",
			into: of(func(x *mapKeys) *written { return &x.distinct })},
		{key: "offset", typ: tInt(0), sample: "10", def: "0", doc: "items to leave out at the start", was: "*",
			into: of(func(m *Map) *Int { return &m.Offset })},
		{key: "max_items", typ: tInt(0), sample: "100", def: "all", doc: "at most this many items; 0: all",
			into: of(func(m *Map) *Int { return &m.MaxItems })},
		{key: "min_items", typ: tInt(0), sample: "1", def: "0", doc: "at least this many items: with fewer the run fails before the first starts, and a resume reads the list again. 0 allows a command to give no item although it writes to standard error, and a json_path that finds nothing",
			into: of(func(m *Map) *Int { return &m.MinItems })},
		{key: "max_parallel", typ: tWidth, sample: "4", doc: "agents at the same time; auto, or from min to max: the map finds out how many. It begins with as many as there are processors, or with min; it grows while all are used and items take no longer, and goes down when they do, or when something is refused", def: "10",
			into: of(func(x *mapKeys) *written { return &x.width })},
		{key: "canary", typ: oneOf(tInt(1), tRef("canary")), sample: "3", doc: "the first items run alone, and the others start when these have succeeded; when too many of them fail, the map is held as by same_error, or stops",
			read: by(func(o *object, key string, n *node, m *Map) { m.Canary = o.d.canary(key, o.d.resolved(n)) })},
		{key: "item_budget", typ: tRef("item_budget"), sample: "{time: 20m}", doc: "what an item may use in all its attempts together; what exceeds it is ended, and gets no further attempt",
			read: by(func(o *object, _ string, n *node, m *Map) { m.Budget = o.d.itemBudget(o.d.resolved(n)) })},
		{key: "evidence", typ: tRef("evidence"), sample: "{checks: ['make test'], protect: ['**/*_test.go']}", doc: "what an item must show before its work is merged; each item then has a worktree of its own",
			read: by(func(o *object, _ string, n *node, m *Map) { m.Evidence = o.d.evidence(n) })},
		{key: "limits", typ: tTexts, sample: "[gpu]", doc: "limits of the machine, from limits.yml in the home directory; each item holds a slot of each while it runs",
			read: by(func(o *object, key string, n *node, m *Map) { m.ItemLimits = o.limitRefs(n, key) })},
		{key: "label", typ: tText, sample: "'${item.path}'", def: "its name, or its place", doc: "how an item is called in the output",
			into: of(func(m *Map) **template.Text { return &m.Label })},
		{key: "skip_unchanged", typ: oneOf(tBool, tRef("skip_unchanged")), sample: "true", doc: "items that an earlier run has ended well, and that are unchanged since, are not run: neither their data, nor the files that it names, nor the steps and the values that these name have changed", def: "false",
			read: by(func(o *object, key string, n *node, m *Map) { m.Unchanged = o.d.unchanged(key, n) })},
		{key: "agent_template", typ: tBlock, sample: "[{shell: make}]", doc: "the steps of each item",
			into: of(func(x *mapKeys) *written { return &x.template })},
		{key: "agent_timeout", typ: tBound, sample: "10m", doc: "of one agent; " + durDoc, was: "*",
			into: of(func(t *agentTimes) *Duration { return &t.agent })},
		{key: "agent_timeout_secs", typ: tBound, sample: "600", as: "agent_timeout", was: "*"},
		{key: "timeout_per_agent", typ: tBound, sample: "600s", as: "agent_timeout", was: "*"},
		{key: "timeout_config", typ: tRef("timeout_config"), sample: "{timeout_action: skip}", doc: "more about the time of agents", was: "*",
			into: of(func(x *agentTimes) **node { return &x.more })},
		{key: "retry_on_failure", typ: oneOf(tBool, tInt(0)), sample: "1", def: "false", doc: "how often a failed item is tried again", was: "*",
			into: of(func(x *itemRetries) *written { return &x.written })},
		{key: "retry", typ: tRetry, sample: "{attempts: 5}", doc: "see error_policy.retry_config", was: "*"},
		{key: "retry_config", typ: tRetry, sample: "{attempts: 5}", doc: "see error_policy", was: "*"},
	}, policyFields(), []field{
		{key: "start_delay", typ: tDur, sample: "2s", def: "0s", doc: "between the starts of agents; " + durDoc,
			read: by(func(o *object, key string, n *node, m *Map) {
				if v := o.d.duration(n, key, time.Second); v.Set {
					o.d.file.StartDelay = v
				}
			})},
	})
}

var inputTable = newTable("map_input", "the input of a map")

func inputFields() []field {
	return []field{
		{key: "file", typ: tText, sample: "items.json", doc: "a file of items",
			into: of(func(x *inputFile) *written { return &x.file })},
		{key: "command", typ: tText, sample: "ls", doc: "a command whose output is the items",
			into: of(func(x *inputCommand) *written { return &x.written })},
		{key: "format", typ: tEnum("json", "jsonl", "csv", "lines"), sample: "jsonl", def: "by the file's name", doc: "what the file is",
			into: of(func(f *inputFile) *string { return &f.format })},
	}
}

var unchangedTable = newTable("skip_unchanged", "a skip_unchanged")

func unchangedFields() []field {
	return []field{
		{key: "files", typ: tTexts, sample: "['src/${item.name}/*.go', build.sh]", doc: "files that count as well, with what is in them; relative to where the steps run; each may be " + patternDoc,
			read: by(func(o *object, key string, n *node, u *Unchanged) { u.Files = o.d.parsedEach(o.stringsAt(n, key)) })},
	}
}

var timeoutTable = newTable("timeout_config", "a timeout_config")

func timeoutFields() []field {
	return []field{
		{key: "agent_timeout_secs", typ: tBound, sample: "600", as: "agent_timeout"},
		{key: "agent_timeout", typ: tBound, sample: "10m", doc: "of one agent; " + durDoc,
			into: of(func(t *agentTimes) *Duration { return &t.agent })},
		{key: "command_timeouts", typ: tMap(tDur), sample: "{shell: 60}", doc: "of a step by its action, id or name; " + durDoc,
			read: by(func(o *object, key string, n *node, m *Map) { m.CommandTimeouts = o.d.commandTimeouts(n, key) })},
		{key: "timeout_policy", typ: tEnum("per_agent", "per_command", "hybrid", "PerAgent", "PerCommand", "Hybrid"), sample: "hybrid", doc: "what the time bounds", def: "per_agent",
			into: of(func(m *Map) *string { return &m.TimeoutPolicy })},
		{key: "cleanup_grace_period_secs", typ: tDur, sample: "20", as: "cleanup_grace_period", def: "10"},
		{key: "cleanup_grace_period", typ: tDur, sample: "20s", doc: "between TERM and KILL; " + durDoc, def: "10s",
			into: of(func(t *agentTimes) *Duration { return &t.grace })},
		{key: "timeout_action", typ: tEnum("dlq", "retry", "skip", "fail", "graceful_terminate", "Dlq", "Retry", "Skip", "Fail", "GracefulTerminate"), sample: "skip", doc: "what becomes of the item, which has failed: dlq and graceful_terminate (on_item_failure holds), retry (as after other failures), skip (it is left out), fail (as dlq, and the map stops)", def: "dlq",
			into: of(func(m *Map) *string { return &m.TimeoutAction })},
		{key: "enable_monitoring", typ: tAny, sample: "true", doc: "", inert: "agents are always watched"},
	}
}

var errorPolicyTable = newTable("error_policy", "an error_policy")

func errorPolicyFields() []field {
	return []field{
		{key: "on_item_failure", typ: tOnItem, sample: "skip", doc: "what becomes of an item that failed for good", def: "dlq",
			read: by(func(o *object, key string, n *node, p *ErrorPolicy) { o.d.onItemFailure(key, n, p) })},
		{key: "retry", typ: tRetry, sample: "{attempts: 5}", as: "retry_config"},
		{key: "retry_config", typ: tRetry, sample: "{attempts: 5}", doc: "an item is tried again with a new agent",
			read: by(func(o *object, key string, n *node, p *ErrorPolicy) { p.Retry = o.d.resolve(o.d.retrySpec(n, key)) })},
		{key: "continue_on_failure", typ: tBool, sample: "false", doc: "false: the first item that failed for good ends the map", def: "true",
			into: of(func(p *ErrorPolicy) *bool { return &p.ContinueOnFailure })},
		{key: "max_failures", typ: tInt(0), sample: "5", doc: "the map stops when this many items failed for good; 0: no bound", def: "0",
			into: of(func(p *ErrorPolicy) *int { return &p.MaxFailures })},
		{key: "failure_threshold", typ: tNum(0, 1), sample: "0.2", doc: "the map stops at this rate of failures, once 10 items have finished",
			into: of(func(p *ErrorPolicy) *float64 { return &p.FailureThreshold })},
		{key: "error_collection", typ: tCollection, sample: "'batched:5'", def: "aggregate", doc: "when the errors of items are shown: aggregate (at the end), immediate (as they come), batched:N (N at a time)",
			read: by(func(o *object, key string, n *node, p *ErrorPolicy) { o.d.collection(key, n, p) })},
		{key: "circuit_breaker", typ: tRef("circuit_breaker"), sample: "{timeout: 1m}", doc: "holds back the start of items",
			read: by(func(o *object, key string, n *node, p *ErrorPolicy) { p.Breaker = o.d.breaker(o.d.resolved(n)) })},
		{key: "max_recoveries", typ: tInt(1), sample: "2", doc: "how often an item may take the whole run down", def: "5",
			into: of(func(p *ErrorPolicy) *int { return &p.MaxRecoveries })},
		{key: "same_error", typ: oneOf(tBool, tRef("same_error")), sample: "true", doc: "holds the map while the same thing keeps failing; true: with the defaults", def: "false",
			read: by(func(o *object, key string, n *node, p *ErrorPolicy) { p.SameError = o.d.sameError(o.d.resolved(n)) })},
	}
}

var sameErrorTable = newTable("same_error", "a same_error")

func sameErrorFields() []field {
	return []field{
		{key: "count", typ: tInt(1), sample: "5", doc: "this many different items must fail alike", def: "10",
			into: of(func(c *policy.SameError) *int { return &c.Count })},
		{key: "share", typ: tAbove(0, 1), sample: "0.8", doc: "the least part that they are of the items whose attempt ended since the first of them", def: "0.9",
			into: of(func(c *policy.SameError) *float64 { return &c.Share })},
		{key: "probe", typ: tRef("probe"), sample: "{initial_delay: 10s}", doc: "when a single item is tried", def: "{initial_delay: 30s, backoff: exponential, max_delay: 10m}",
			read: by(func(o *object, key string, n *node, c *holding) { o.d.probe(o.d.resolved(n), c.SameError) })},
		{key: "close", typ: tInt(1), sample: "2", doc: "this many probes in a row must succeed", def: "3",
			into: of(func(c *holding) *int { return &c.Close })},
		{key: "max_hold", typ: tDur, sample: "1h", doc: "after that the map stops, with its items pending; " + durDoc, def: "6h",
			read: by(func(o *object, key string, n *node, c *holding) { o.d.maxHold(key, n, c.SameError) })},
		{key: "on_hold", typ: tSteps, sample: "[{shell: make}]", doc: "steps that run once when the map is held, with ${hold.text}, ${hold.signature}, ${hold.message} and ${hold.items}; that they fail is a warning",
			read: by(func(o *object, key string, n *node, _ *holding) { o.d.file.Policy.OnHold = o.d.onHold(n, key) })},
		{key: "action", typ: tEnum("hold", "stop"), sample: "stop", doc: "stop: no probes and no on_hold, the map stops at once", def: "hold",
			read: by(func(o *object, key string, n *node, c *policy.SameError) {
				c.Stop = o.choiceAt("hold", key, n) == "stop"
			})},
	}
}

var probeTable = newTable("probe", "a probe")

// probeFields are the waits of a retry policy with the defaults of a probe.
func probeFields() []field {
	fs := optionFields(option.For(option.Probe))
	p := policy.DefaultProbe()
	for i := range fs {
		switch f := &fs[i]; {
		case strings.HasPrefix(f.key, "initial_delay"):
			f.def, f.doc = duration.Format(p.Initial), strings.Replace(f.doc, "The delay after the first failed attempt. In a pipeline there is none where it is missing.", "The wait before the first probe.", 1)
		case strings.HasPrefix(f.key, "max_delay"):
			f.def, f.doc = duration.Format(p.Max), strings.Replace(f.doc, "The longest delay between two attempts.", "The longest wait before a probe.", 1)
		case f.key == "backoff":
			f.doc = "How the wait D grows from probe to probe; linear is n·D, exponential D·base^(n-1)."
		}
	}
	return fs
}

var customTable = newTable("on_item_failure", "an on_item_failure")

func customFields() []field {
	return []field{
		{key: "custom", typ: tName, sample: "tell", doc: "the handler's name",
			into: of(func(x *customHandler) **node { return &x.n })},
	}
}

var batchTable = newTable("error_batch", "an error_collection")

func batchFields() []field {
	return []field{
		{key: "type", typ: tEnum(collections...), sample: "batched", doc: "when errors are shown",
			into: of(func(b *errorBatch) *string { return &b.kind })},
		{key: "size", typ: tInt(1), sample: "5", doc: "how many at a time",
			into: of(func(p *ErrorPolicy) *int { return &p.BatchSize })},
		{key: "batched", typ: tAny, sample: "{size: 5}", doc: "how many at a time",
			into: of(func(x *errorBatch) *written { return &x.batched })},
	}
}

var importTable = newTable("import", "an import")

func importFields() []field {
	return []field{
		{key: "path", typ: tText, sample: "other.yml", doc: "the file, relative to this one",
			into: of(func(i *importEntry) **node { return &i.path })},
		{key: "alias", typ: tName, sample: "other", doc: "its name for `workflow:` steps",
			into: of(func(i *importEntry) *string { return &i.alias })},
		{key: "selective", typ: tTexts, sample: "[build]", doc: "only the steps and workflows of these names",
			into: of(func(i *importEntry) *[]*node { return &i.selective })},
	}
}

var templateTable = newTable("template", "a template")

func templateFields() []field {
	return []field{
		{key: "name", typ: tName, sample: "ci", doc: "its name; the source where that is missing",
			into: of(func(t *templateEntry) *string { return &t.name })},
		{key: "source", typ: oneOf(tText, tRef("template_source")), sample: "ci.yml", doc: "a file or a name to look up",
			into: of(func(t *templateEntry) **node { return &t.source })},
		{key: "with", typ: tMap(tAny), sample: "{level: low}", doc: "the values of its parameters",
			into: of(func(t *templateEntry) *written { return &t.with })},
		{key: "override", typ: tMap(tAny), sample: "{timeout: 600}", doc: "values that replace the template's; keys may be paths such as commands.0.timeout", was: "*",
			into: of(func(x *templateEntry) *written { return &x.override })},
	}
}

var templateSourceTable = newTable("template_source", "a template source")

func templateSourceFields() []field {
	return []field{
		{key: "file", typ: tText, sample: "ci.yml", doc: "the file",
			into: of(func(x *templateFile) **node { return &x.n })},
	}
}

var paramListTable = newTable("parameter_lists", "parameters")

func paramListFields() []field {
	return []field{
		{key: "required", typ: tList(oneOf(tText, tRef("parameter"))), sample: "[level]", doc: "must have a value",
			into: of(func(x *paramLists) *written { return &x.required })},
		{key: "optional", typ: tList(oneOf(tText, tRef("parameter"))), sample: "[{name: level, default: low}]", doc: "may have one",
			into: of(func(x *paramLists) *written { return &x.optional })},
		{key: "definitions", typ: tMap(tAny), sample: "{level: {type: string, default: low}}", doc: "by name",
			into: of(func(x *paramLists) *written { return &x.definitions })},
	}
}

var paramTable = newTable("parameter", "a parameter")

func paramFields() []field {
	return []field{
		{key: "name", typ: tName, sample: "level", doc: "its name",
			into: of(func(x *paramName) *written { return &x.written })},
		{key: "type", typ: tText, sample: "string", def: "any", doc: "string, number, integer, boolean, array, object or any",
			read: by(func(o *object, _ string, n *node, p *declared) { p.Type = o.d.paramType(n) })},
		{key: "description", typ: tText, sample: "how loud", doc: "for people",
			into: of(func(p *declared) *string { return &p.Description })},
		{key: "default", typ: tAny, sample: "low", doc: "its value where none is given",
			into: of(func(p *declared) *orNull { return &p.given })},
		{key: "required", typ: tBool, sample: "false", def: "true where it has no default", doc: "it must have a value",
			into: of(func(m *mustHave) *bool { return &m.required })},
		{key: "validation", typ: tText, sample: "value != 'none'", doc: "a condition on value; a text that begins with ^ is a regular expression", was: "*",
			read: by(func(o *object, key string, n *node, p *declared) { o.d.paramValidation(key, n, p) })},
		{key: "enum", typ: tList(tAny), sample: "[low, high]", doc: "the values it may have",
			read: by(func(_ *object, _ string, n *node, p *declared) { p.enum, _ = n.value().([]any) })},
	}
}

var subWorkflowTable = newTable("sub_workflow", "a sub-workflow")

func subWorkflowFields() []field {
	return []field{
		{key: "source", typ: tText, sample: "build.yml", doc: "its file, relative to this one",
			into: of(func(x *subSource) *written { return &x.written })},
		{key: "path", typ: tText, sample: "build.yml", as: "source"},
		{key: "parameters", typ: tMap(tAny), sample: "{level: low}", doc: "values of its parameters",
			read: by(func(o *object, key string, n *node, v *subValues) {
				v.With = o.d.args(n, key)
				v.in.give(o.d, n)
			})},
		{key: "with", typ: tMap(tAny), sample: "{level: low}", as: "parameters"},
		{key: "inputs", typ: oneOf(tMap(tText), tTexts), sample: "{level: level}", doc: "parameter: variable or text of this workflow",
			read: by(func(o *object, key string, n *node, v *subValues) { o.d.inputs(n, key, v.SubWorkflow, v.in) })},
		{key: "outputs", typ: tTexts, sample: "[version]", doc: "variables that it hands back",
			into: either(of(func(s *SubWorkflow) *[]string { return &s.Outputs }), of(func(out *subOutputs) *written { return &out.written }))},
		{key: "depends_on", typ: oneOf(tName, tTexts), sample: "[first]", doc: "the ones to run before",
			into: of(func(s *SubWorkflow) *[]string { return &s.DependsOn })},
		{key: "parallel", typ: tBool, sample: "true", doc: "runs beside the others",
			into: of(func(s *SubWorkflow) *bool { return &s.Parallel })},
		{key: "continue_on_error", typ: tBool, sample: "true", doc: "its failure does not end the run",
			into: of(func(s *SubWorkflow) *bool { return &s.ContinueOnError })},
		{key: "timeout", typ: tBound, sample: "10m", doc: "of all of it; " + durDoc,
			into: of(func(s *SubWorkflow) *Duration { return &s.Timeout })},
		{key: "working_dir", typ: tText, sample: "sub", doc: "where it runs",
			into: of(func(s *SubWorkflow) **template.Text { return &s.WorkingDir })},
	}
}
