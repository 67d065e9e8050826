package syntax

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// dump writes a tree without its positions.
func dump(f *File) string {
	var b strings.Builder
	for _, d := range f.Decls {
		dumpValue(&b, reflect.ValueOf(d), 0)
	}
	return b.String()
}

func dumpValue(b *strings.Builder, v reflect.Value, depth int) {
	switch v.Kind() {
	case reflect.Interface, reflect.Pointer:
		if v.IsNil() {
			b.WriteString("nil\n")
			return
		}
		dumpValue(b, v.Elem(), depth)
	case reflect.Struct:
		fmt.Fprintf(b, "%s\n", v.Type().Name())
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if f.Type == reflect.TypeOf(Span{}) || !f.IsExported() {
				continue
			}
			fmt.Fprintf(b, "%*s%s: ", 2*depth+2, "", f.Name)
			dumpValue(b, v.Field(i), depth+1)
		}
	case reflect.Slice:
		fmt.Fprintf(b, "[%d]\n", v.Len())
		for i := range v.Len() {
			fmt.Fprintf(b, "%*s- ", 2*depth+2, "")
			dumpValue(b, v.Index(i), depth+1)
		}
	default:
		fmt.Fprintf(b, "%#v\n", v.Interface())
	}
}

// seedSources are the sources of testdata and those of the tables of the
// tests.
func seedSources(t testing.TB) []string {
	names, err := filepath.Glob("testdata/*.cst")
	if err != nil || len(names) == 0 {
		t.Fatalf("no sources in testdata (%v)", err)
	}
	var list []string
	for _, name := range names {
		src, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, string(src))
		list = append(list, strings.Split(string(src), "\n\n")...)
	}
	return list
}

// checkSpans fails if a node lies outside the source or outside its parent's
// reach.
func checkSpans(t *testing.T, f *File) {
	t.Helper()
	for _, d := range f.Decls {
		Inspect(d, func(n Node) bool {
			if n == nil {
				return false
			}
			s := n.Extent()
			if s.Start < 0 || s.End < s.Start || int(s.End) > len(f.Src) {
				t.Fatalf("%T has the span %v in a source of %d bytes:\n%q", n, s, len(f.Src), f.Src)
			}
			return true
		})
	}
}

func FuzzParse(f *testing.F) {
	for _, src := range seedSources(f) {
		f.Add([]byte(src))
	}
	for _, c := range errorCases(f) {
		f.Add([]byte(c.src))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		file, list := Parse("x.cst", src)
		if file == nil {
			t.Fatal("no file")
		}
		checkSpans(t, file)
		lines := bytes.Count(src, []byte("\n")) + 1
		for _, p := range list {
			if p.Line < 1 || p.Line > lines || p.Column < 1 || p.Message == "" || p.Code == "" {
				t.Fatalf("bad problem %+v of %q", p, src)
			}
			if p.EndColumn != 0 && p.EndColumn <= p.Column {
				t.Fatalf("bad end of problem %+v", p)
			}
		}
		bad := false
		for _, d := range file.Decls {
			Inspect(d, func(n Node) bool {
				switch n.(type) {
				case *BadDecl, *BadExpr, *BadType, *BadPattern, *BadValue:
					bad = true
				}
				return true
			})
		}
		if bad && !list.HasErrors() {
			t.Fatalf("a Bad node without an error:\n%q", src)
		}
	})
}

func FuzzFormat(f *testing.F) {
	for _, src := range seedSources(f) {
		f.Add([]byte(src))
	}
	f.Fuzz(func(t *testing.T, src []byte) { checkFormat(t, src) })
}

// checkFormat fails if Format does not keep what it promises for a source.
func checkFormat(t *testing.T, src []byte) {
	t.Helper()
	if why := formatFault(src); why != "" {
		t.Fatal(why)
	}
}

// formatFault formats a source and says which of its promises Format broke.
func formatFault(src []byte) string {
	file, list := Parse("x.cst", src)
	once := Format(file)
	if list.HasErrors() {
		if !bytes.Equal(once, src) {
			return fmt.Sprintf("a source with errors was changed:\n%q\n%q", src, once)
		}
		return ""
	}
	again, list := Parse("x.cst", once)
	if list.HasErrors() {
		return fmt.Sprintf("the formatted source has errors: %v\n--- source\n%s\n--- formatted\n%s", list, src, once)
	}
	if a, b := dump(file), dump(again); a != b {
		return fmt.Sprintf("the formatted source means something else\n--- source\n%s\n--- formatted\n%s\n--- was\n%s\n--- is\n%s", src, once, a, b)
	}
	if twice := Format(again); !bytes.Equal(once, twice) {
		return fmt.Sprintf("formatting is not stable\n--- source\n%s\n--- once\n%s\n--- twice\n%s", src, once, twice)
	}
	if a, b := comments(file), comments(again); a != b {
		return fmt.Sprintf("the comments changed\n--- source\n%s\n--- formatted\n%s", src, once)
	}
	for i, line := range strings.Split(string(once), "\n") {
		if strings.TrimRight(line, " ") != line && !strings.Contains(string(once), `"`) {
			return fmt.Sprintf("line %d ends with a blank:\n%s", i+1, once)
		}
	}
	return ""
}

func comments(f *File) string {
	var list []string
	for _, c := range f.Comments {
		list = append(list, c.Text)
	}
	return strings.Join(list, "\n")
}
