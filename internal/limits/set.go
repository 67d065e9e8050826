package limits

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/bide-dev/bide/internal/files"
)

// Set changes settings of a limit in the file of a home directory, each as KEY=VALUE,
// and adds the limit where there is none. KEY= takes a setting away. Comments of the
// file stay. Runs in progress see the change within a second. A limit whose pauses are
// shared no longer forgets the one that lasts.
func Set(home, name string, settings []string) error {
	path := filepath.Join(home, FileName)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		text = []byte("limits: {}\n")
	} else if err != nil {
		return err
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if len(doc.Content) == 0 { // comments alone
		doc = yaml.Node{Kind: yaml.DocumentNode, Content: []*yaml.Node{{Kind: yaml.MappingNode}}, HeadComment: doc.HeadComment}
	}
	all := child(doc.Content[0], "limits")
	all.Style = 0 // one limit a line
	l := child(all, name)
	l.Style = yaml.FlowStyle
	for _, s := range settings {
		key, value, ok := strings.Cut(s, "=")
		if !ok {
			example := "slots=4"
			if n, err := strconv.Atoi(s); err == nil && n > 0 {
				example = "slots=" + s
			}
			return fmt.Errorf("%q is no setting; write KEY=VALUE, for example %s", s, example)
		}
		put(l, key, value)
	}
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	if err := errors.Join(enc.Encode(&doc), enc.Close()); err != nil {
		return err
	}
	c := &Config{Path: path, Limits: map[string]Limit{}}
	if problems := c.parse(out.Bytes()); problems.HasErrors() {
		var texts []string
		for _, p := range problems { // the places are those of a file that is not written
			texts = append(texts, p.Message+"; "+p.Suggestion)
		}
		return errors.New(strings.Join(texts, "\n"))
	}
	if err := os.MkdirAll(home, 0o700); err != nil {
		return err
	}
	if err := files.Replace(path, 0o600, files.Synced(out.Bytes())); err != nil || c.Limits[name].Shared {
		return err
	}
	h := Open(home, nil)
	_, err = h.Lift([]string{name}, time.Now())
	return errors.Join(err, h.Close())
}

// child gives the map under a key, which is made where there is none.
func child(m *yaml.Node, key string) *yaml.Node {
	for i := 0; i+1 < len(m.Content); i += 2 {
		if m.Content[i].Value == key {
			if v := m.Content[i+1]; v.Kind == yaml.ScalarNode && v.Tag == "!!null" {
				*v = yaml.Node{Kind: yaml.MappingNode}
			}
			return m.Content[i+1]
		}
	}
	v := &yaml.Node{Kind: yaml.MappingNode}
	m.Content = append(m.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: key}, v)
	return v
}

// put sets a key of a map, or takes it away.
func put(m *yaml.Node, key, value string) {
	for i := 0; i+1 < len(m.Content); i += 2 {
		if m.Content[i].Value != key {
			continue
		}
		if value == "" {
			m.Content = append(m.Content[:i], m.Content[i+2:]...)
		} else {
			m.Content[i+1] = &yaml.Node{Kind: yaml.ScalarNode, Value: value}
		}
		return
	}
	if value != "" {
		m.Content = append(m.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: key}, &yaml.Node{Kind: yaml.ScalarNode, Value: value})
	}
}
