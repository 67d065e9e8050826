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
	var root yaml.Node
	if err := yaml.Unmarshal(src, &root); err != nil {
		return nil, err
	}
	if len(root.Content) != 1 {
		return nil, errors.New("there is nothing in the file to set")
	}
	var errs []error
	for _, c := range changes {
		if err := set(root.Content[0], c, same); err != nil {
			errs = append(errs, fmt.Errorf("--set %s: %w", c, err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := errors.Join(enc.Encode(&root), enc.Close()); err != nil {
		return nil, err
	}
	return b.Bytes(), inVain(src, b.Bytes(), changes)
}

// sameKey says whether two keys are spellings of one.
type sameKey func(a, b string) bool

// inVain is an error for changes that no run would heed: of a key that is none, or that
// has no effect where it is.
func inVain(before, after []byte, changes []string) error {
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
	var errs []error
	for message, p := range ignored(after) {
		if _, known := was[message]; !known {
			text := "--set: " + strings.TrimSuffix(message, "; it is ignored")
			if hint := cmp.Or(insideRetry(message, changes), ofModel(changes), p.Suggestion); hint != "" {
				text += "; " + hint
			}
			errs = append(errs, errors.New(text))
		}
	}
	slices.SortFunc(errs, func(x, y error) int { return strings.Compare(x.Error(), y.Error()) })
	return errors.Join(errs...)
}

// insideRetry is the path of a change whose last part is an option of a retry policy, which
// a step does not have; "" where the message is of no such one.
func insideRetry(message string, changes []string) string {
	for _, c := range changes {
		path, _, _ := strings.Cut(c, "=")
		at := strings.LastIndexByte(path, '.')
		if at < 0 || strings.HasSuffix(path[:at], "retry") || strings.HasSuffix(path[:at], "retry_config") {
			continue
		}
		key := path[at+1:]
		known := option.ByName(key) != nil || key == "max_attempts" || key == "retries"
		if known && strings.Contains(message, key) {
			if key == "max_attempts" || key == "retries" {
				key = "attempts"
			}
			return "write " + path[:at] + ".retry." + key
		}
	}
	return ""
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
			hint := ""
			if slices.Contains([]string{"retry", "retry_config"}, parts[0]) {
				hint = "; write STEP.retry or retry_defaults"
			}
			return nil, nil, fmt.Errorf("the file has neither a key nor a step %s%s", parts[0], hint)
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
