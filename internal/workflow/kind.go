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
		return f.union()
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

// union is one kind or another; a list of what is beside it is "a list of them".
func (f *form) union() string {
	var kinds []string
	add := func(kind string) {
		if !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	lists := ""
	for _, one := range f.flat() {
		if one.Type == "array" && one.Items != nil && one.Items.AnyOf != nil {
			lists = one.Items.kind()
			continue
		}
		add(one.kind())
	}
	switch {
	case lists == "":
	case lists == strings.Join(kinds, " or "):
		return lists + ", or a list of them"
	default:
		add("list of (" + lists + ")")
	}
	return strings.Join(kinds, " or ")
}

// flat are the forms of a union, with those of unions in it.
func (f *form) flat() (list []*form) {
	for _, one := range f.AnyOf {
		switch {
		case one == tVar:
		case one.AnyOf != nil:
			list = append(list, one.flat()...)
		default:
			list = append(list, one)
		}
	}
	return list
}

func (f *form) kindNamed(name string) string {
	switch name {
	case "array":
		switch {
		case f.Items == tAny:
		case f.Items.AnyOf != nil && strings.Contains(f.Items.kind(), " or "):
			return "list of (" + f.Items.kind() + ")"
		default:
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
	case f.Above != nil && f.Maximum != nil:
		return fmt.Sprintf("more than %v, at most %v", f.Above, f.Maximum)
	case f.Above != nil:
		return fmt.Sprintf("more than %v", f.Above)
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

// interval is between which numbers a value is to be.
type interval struct {
	least, greatest float64 // greatest is 0 where there is no upper bound
	above           bool    // it is greater than least
}

func (f *form) limits() interval {
	for _, one := range f.AnyOf {
		if one.Minimum != nil || one.Above != nil || one.AnyOf != nil {
			return one.limits()
		}
	}
	if f.Above != nil {
		return interval{asFloat(f.Above), asFloat(f.Maximum), true}
	}
	return interval{asFloat(f.Minimum), asFloat(f.Maximum), false}
}

func asFloat(n any) float64 {
	if i, ok := n.(int); ok {
		return float64(i)
	}
	f, _ := n.(float64)
	return f
}
