package workflow

import (
	"fmt"
	"slices"
	"strings"
)

// kind says in words what a value is, for reference pages.
func (f *form) kind() string {
	switch {
	case f.Ref == "#/$defs/steps":
		return "list of steps"
	case f.Ref != "":
		return strings.TrimPrefix(f.Ref, "#/$defs/")
	case f.AnyOf != nil:
		var kinds []string
		for _, one := range f.AnyOf {
			if kind := one.kind(); one != tVar && !slices.Contains(kinds, kind) {
				kinds = append(kinds, kind)
			}
		}
		return strings.Join(kinds, " or ")
	case f.Enum != nil:
		return strings.Join(f.Enum, ", ")
	}
	switch t := f.Type.(type) {
	case []string:
		if slices.Contains(t, "string") {
			return "text"
		}
		return strings.Join(t, " or ")
	case string:
		return f.kindNamed(t)
	}
	return "any value"
}

func (f *form) kindNamed(name string) string {
	switch name {
	case "array":
		if f.Items != tAny {
			return "list of " + f.Items.kind()
		}
		return "list"
	case "object":
		if of, ok := f.Others.(*form); ok && of != tAny {
			return "map of " + of.kind()
		}
		return "map"
	case "integer":
		return "whole number"
	case "boolean":
		return "true or false"
	case "string":
		return "text"
	}
	return name
}

// bounds says between which values a number is to be, "" for what is none.
func (f *form) bounds() string {
	for _, one := range f.AnyOf {
		if b := one.bounds(); b != "" {
			return b
		}
	}
	switch {
	case f.Minimum != nil && f.Maximum != nil:
		return fmt.Sprintf("%v to %v", f.Minimum, f.Maximum)
	case f.Minimum != nil:
		return fmt.Sprintf("%v or more", f.Minimum)
	}
	return ""
}

// words are those that the form lists, in snake_case, each once.
func (f *form) words() (words []string) {
	for _, one := range f.AnyOf {
		words = append(words, one.words()...)
	}
	for _, w := range f.Enum {
		if w = snake(w); !slices.Contains(words, w) {
			words = append(words, w)
		}
	}
	return words
}

// limits are the bounds of a number; greatest is 0 where it has none above.
func (f *form) limits() (least, greatest float64) {
	for _, one := range f.AnyOf {
		if one.Minimum != nil || one.AnyOf != nil {
			return one.limits()
		}
	}
	return asFloat(f.Minimum), asFloat(f.Maximum)
}

func asFloat(n any) float64 {
	if i, ok := n.(int); ok {
		return float64(i)
	}
	f, _ := n.(float64)
	return f
}
