package simulate

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/bide-dev/bide/internal/diag"
	"github.com/bide-dev/bide/internal/option"
	"github.com/bide-dev/bide/internal/workflow"
)

// Set changes values in the text of a workflow file. Each change is PATH=VALUE:
// the path as it is in the file, such as commands[0].retry.attempts or
// map.max_parallel, whose first part may also be the name or the id of a step; the
// value as in YAML. What the path leads to is made where it is not there; where that
// would be in vain, a key may have another spelling than in the file. The error names
// every change that cannot be made.
func Set(src []byte, changes []string) ([]byte, error) {
	if len(changes) == 0 {
		return src, nil
	}
	text, err := setKeys(src, changes, func(string, string) bool { return false })
	if err != nil {
		if other, err := setKeys(src, changes, workflow.SameKey); err == nil {
			return other, nil
		}
	}
	return text, err
}

// setKeys changes values, where same says which keys are spellings of one.
func setKeys(src []byte, changes []string, same sameKey) ([]byte, error) {
	text, failed, err := apply(src, changes, same)
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, f := range failed {
		if hint := meantPaths(src, f.change); hint != "" {
			f.err = fmt.Errorf("%w; %s", f.err, hint)
		}
		errs = append(errs, fmt.Errorf("--set %s: %w", f.change, f.err))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	for _, p := range inVain(src, text) {
		message := strings.TrimSuffix(p.Message, "; it is ignored")
		if hint := cmp.Or(insideRetry(message, changes), meantByAny(src, message, changes), ofModel(changes), p.Suggestion); hint != "" {
			message += "; " + hint
		}
		errs = append(errs, errors.New("--set: "+message))
	}
	return text, errors.Join(errs...)
}

// failedChange is a change that cannot be made, and why.
type failedChange struct {
	change string
	err    error
}

// apply makes changes, and gives those that cannot be made. Its error is of the text.
func apply(src []byte, changes []string, same sameKey) ([]byte, []failedChange, error) {
	var root yaml.Node
	if err := yaml.Unmarshal(src, &root); err != nil {
		return nil, nil, err
	}
	if len(root.Content) != 1 {
		return nil, nil, errors.New("there is nothing in the file to set")
	}
	var failed []failedChange
	for _, c := range changes {
		if err := set(root.Content[0], c, same); err != nil {
			failed = append(failed, failedChange{c, err})
		}
	}
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := errors.Join(enc.Encode(&root), enc.Close()); err != nil {
		return nil, nil, err
	}
	return b.Bytes(), failed, nil
}

// canSet reports whether Set can make a change.
func canSet(src []byte, change string) bool {
	for _, same := range []sameKey{func(string, string) bool { return false }, workflow.SameKey} {
		text, failed, err := apply(src, []string{change}, same)
		if err == nil && len(failed) == 0 && len(inVain(src, text)) == 0 {
			return true
		}
	}
	return false
}

// sameKey says whether two keys are spellings of one.
type sameKey func(a, b string) bool

// inVain gives what no run would heed of a changed file, and was not in it before: keys that
// are none, or that have no effect where they are.
func inVain(before, after []byte) (list diag.List) {
	ignored := func(text []byte) map[string]diag.Problem {
		found := map[string]diag.Problem{}
		_, problems := workflow.Parse("", text, workflow.Options{})
		for _, p := range problems {
			if p.Code == "unknown-key" || p.Code == "no-effect" {
				found[p.Message] = p
			}
		}
		return found
	}
	was := ignored(before)
	for message, p := range ignored(after) {
		if _, known := was[message]; !known {
			list = append(list, p)
		}
	}
	slices.SortFunc(list, func(x, y diag.Problem) int { return strings.Compare(x.Message, y.Message) })
	return list
}

// insideRetry is the change that is meant by one whose last part is an option of a retry
// policy, which a step does not have; "" where the message is of no such one.
func insideRetry(message string, changes []string) string {
	for _, c := range changes {
		path, val, _ := strings.Cut(c, "=")
		at := strings.LastIndexByte(path, '.')
		if at < 0 || strings.HasSuffix(path[:at], "retry") || strings.HasSuffix(path[:at], "retry_config") {
			continue
		}
		if key := path[at+1:]; strings.Contains(message, key) {
			if inside := inPolicy(key, val); inside != "" {
				return "write " + path[:at] + ".retry." + inside
			}
		}
	}
	return ""
}

// inPolicy is KEY=VALUE of the option of a retry policy that is meant by a key; "" for none.
func inPolicy(key, val string) string {
	for _, r := range option.Table() {
		if !r.InPolicy() || r.In&option.File == 0 || !slices.Contains(r.Spellings(), key) && r.Call != key && !slices.Contains(r.Meant, key) {
			continue
		}
		if n, err := strconv.Atoi(val); err == nil && (key == "retries" || key == "max_retries") { // those after the first
			val = strconv.Itoa(n + 1)
		}
		if key != r.Name && strings.HasPrefix(key, r.Name+"_") { // its unit
			return key + "=" + val
		}
		return r.Name + "=" + val
	}
	return ""
}

// meantByAny is meantPaths for the change that a message is of.
func meantByAny(src []byte, message string, changes []string) string {
	for _, c := range changes {
		if key, _, _ := strings.Cut(c, "="); strings.Contains(message, strconv.Quote(key)) {
			if hint := meantPaths(src, c); hint != "" {
				return hint
			}
		}
	}
	return ""
}

// mostMeant is how many changes an error proposes, and mostTried how many steps it tries.
const mostMeant, mostTried = 4, 50

// meantPaths proposes the changes that may be meant by one that cannot be made: for a key
// alone, those of the parts of the file and of the steps that can have it, as PATH=VALUE; for a
// step that there is not, the one with a name like it.
func meantPaths(src []byte, change string) string {
	path, val, _ := strings.Cut(change, "=")
	key := strings.TrimPrefix(strings.TrimPrefix(path, "retry."), "retry_config.")
	f, _ := workflow.Parse("", src, workflow.Options{})
	if f == nil || key == "" {
		return ""
	}
	f.Source = src
	if strings.ContainsAny(key, ".[") {
		return meantStep(f, path, val)
	}
	var found []string
	for _, part := range partsOf(src) { // those whose keys are names, as of env:, take any
		if c := part + "." + key + "=" + val; canSet(src, c) && !canSet(src, part+".bide_has_no_such_key="+val) {
			found = append(found, c)
		}
	}
	ends, tried := []string{key + "=" + val}, 0
	inside := inPolicy(key, val)
	if inside != "" {
		ends = []string{"retry." + inside, ends[0]}
	}
	workflow.Walk(f, func(s *workflow.Step) {
		if tried++; tried > mostTried || len(found) > mostMeant {
			return
		}
		for _, end := range ends {
			if c := settable(f, s) + "." + end; canSet(src, c) {
				found = append(found, c)
				return
			}
		}
	})
	if len(found) == 0 {
		return ""
	}
	if len(found) > mostMeant {
		found = append(found[:mostMeant], "the same of another step")
	}
	if c := "retry_defaults." + inside; inside != "" && !slices.Contains(found, c) && canSet(src, c) {
		found = append(found, c+" for all steps without their own")
	}
	return "write " + strings.Join(found, " or ")
}

// meantStep proposes a step with a name like the one that a path begins with.
func meantStep(f *workflow.File, path, val string) string {
	name, rest, _ := strings.Cut(path, ".")
	var names []string
	workflow.Walk(f, func(s *workflow.Step) { names = append(names, s.Name, s.ID) })
	near := diag.Nearest(name, names)
	if c := near + "." + rest + "=" + val; near != "" && near != name && canSet(f.Source, c) {
		return "did you mean " + c + "?"
	}
	return ""
}

// partsOf are the keys at the top of a file that have keys below them.
func partsOf(src []byte) (parts []string) {
	var root yaml.Node
	if yaml.Unmarshal(src, &root) != nil || len(root.Content) != 1 || root.Content[0].Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(root.Content[0].Content); i += 2 {
		if root.Content[0].Content[i+1].Kind == yaml.MappingNode {
			parts = append(parts, root.Content[0].Content[i].Value)
		}
	}
	return parts
}

// ofModel says where failures and times stand, for a change that would set them in the file;
// "" where none does.
func ofModel(changes []string) string {
	for _, c := range changes {
		path, _, _ := strings.Cut(c, "=")
		at := strings.LastIndexByte(path, '.')
		if at < 0 {
			continue
		}
		step := path[:at]
		switch path[at+1:] {
		case "failures", "failure_rate", "failure_probability", "fail", "error_rate":
			return "how often it fails is in a model: write steps: {" + step + ": {failures: {network: 0.1}}} into a file, and name it with --model FILE"
		case "latency", "duration", "cost":
			return "what an attempt takes is in a model: write steps: {" + step + ": {latency: 2s}} into a file, and name it with --model FILE"
		}
	}
	return ""
}

func set(root *yaml.Node, change string, same sameKey) error {
	path, text, ok := strings.Cut(change, "=")
	if !ok || path == "" {
		return errors.New("write it as PATH=VALUE, such as fetch.retry.attempts=5")
	}
	var val yaml.Node
	if err := yaml.Unmarshal([]byte(text), &val); err != nil || len(val.Content) != 1 {
		return fmt.Errorf("the value %q is no YAML", text)
	}
	at, rest, err := start(root, path, same)
	if err != nil {
		return err
	}
	for at.Kind == yaml.AliasNode {
		at = at.Alias
	}
	for len(rest) > 0 {
		next := child(at, rest[0], same, true)
		if next == nil {
			return fmt.Errorf("there is no %s in the file", rest[0])
		}
		at, rest = next, rest[1:]
	}
	*at = *val.Content[0]
	return nil
}

// start is where a path begins: at a step of a name, or at the root.
func start(root *yaml.Node, path string, same sameKey) (*yaml.Node, []string, error) {
	parts := split(path)
	if len(parts) > 1 && child(root, parts[0], same, false) == nil {
		for i := len(parts) - 1; i > 0; i-- { // a name may have a point in it
			found := named(root, strings.Join(parts[:i], "."))
			if len(found) > 1 {
				return nil, nil, fmt.Errorf("%d steps are named %s: write the path of one", len(found), parts[0])
			}
			if len(found) == 1 {
				return found[0], parts[i:], nil
			}
		}
		if root.Kind == yaml.MappingNode && !slices.Contains([]string{"timeout", "commands", "map", "setup", "reduce", "error_policy", "retry_defaults", "env"}, parts[0]) {
			return nil, nil, fmt.Errorf("the file has neither a key nor a step %s", parts[0])
		}
	}
	return root, parts, nil
}

// split gives the parts of a path: keys and places in lists.
func split(path string) (parts []string) {
	for p := range strings.SplitSeq(path, ".") {
		key, index, has := strings.Cut(p, "[")
		if key != "" {
			parts = append(parts, key)
		}
		for has {
			var one string
			one, index, _ = strings.Cut(index, "]")
			parts = append(parts, "["+one+"]")
			index, has = strings.CutPrefix(index, "[")
		}
	}
	return parts
}

// child is what a part of a path leads to. A key may be there in another spelling. One that
// is not there is made where it may be.
func child(at *yaml.Node, part string, same sameKey, make bool) *yaml.Node {
	if at.Kind == yaml.AliasNode {
		at = at.Alias
	}
	if place, is := strings.CutPrefix(part, "["); is {
		i, err := strconv.Atoi(strings.TrimSuffix(place, "]"))
		if err != nil || at.Kind != yaml.SequenceNode || i < 0 || i >= len(at.Content) {
			return nil
		}
		return at.Content[i]
	}
	for _, is := range []sameKey{func(a, b string) bool { return a == b }, same} {
		for i := 0; at.Kind == yaml.MappingNode && i < len(at.Content); i += 2 {
			if is(at.Content[i].Value, part) {
				return at.Content[i+1]
			}
		}
	}
	if !make {
		return nil
	}
	switch {
	case at.Kind == yaml.MappingNode:
	case at.Kind == yaml.ScalarNode && part == "attempts" || at.Kind == 0 || at.Tag == "!!null":
		*at = yaml.Node{Kind: yaml.MappingNode}
	case at.Kind == yaml.ScalarNode && at.Tag == "!!int": // `retry: 3`
		*at = yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{{Kind: yaml.ScalarNode, Value: "attempts"}, {Kind: yaml.ScalarNode, Tag: "!!int", Value: at.Value}}}
	default:
		return nil
	}
	val := &yaml.Node{}
	at.Content = append(at.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: part}, val)
	return val
}

// named are the maps below a node that have a name or an id.
func named(n *yaml.Node, name string) (found []*yaml.Node) {
	if n.Kind == yaml.MappingNode {
		for i := 0; i < len(n.Content); i += 2 {
			if k := n.Content[i].Value; (k == "name" || k == "id") && n.Content[i+1].Value == name {
				found = append(found, n)
				break
			}
		}
	}
	for _, c := range n.Content {
		found = append(found, named(c, name)...)
	}
	return found
}
