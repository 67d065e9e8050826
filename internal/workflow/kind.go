package workflow

import (
	"fmt"
	"slices"
	"strings"
)

// kindOf says the form of a value in words, for reference pages.
func kindOf(t typ) string {
	if ref, ok := t["$ref"].(string); ok {
		name := strings.TrimPrefix(ref, "#/$defs/")
		if name == "steps" {
			return "list of steps"
		}
		return name
	}
	if all, ok := t["anyOf"].([]typ); ok {
		var kinds []string
		for _, one := range all {
			if kind := kindOf(one); !isVar(one) && !slices.Contains(kinds, kind) {
				kinds = append(kinds, kind)
			}
		}
		return strings.Join(kinds, " or ")
	}
	if words, ok := t["enum"].([]string); ok {
		return strings.Join(words, ", ")
	}
	switch name := t["type"].(type) {
	case []string:
		return scalarKind(name)
	case string:
		return kindNamed(t, name)
	}
	return "any value"
}

func isVar(t typ) bool { return t["pattern"] == tVar["pattern"] && t["type"] == "string" }

func scalarKind(types []string) string {
	if slices.Contains(types, "string") {
		return "text"
	}
	return strings.Join(types, " or ")
}

func kindNamed(t typ, name string) string {
	switch name {
	case "array":
		if of, ok := t["items"].(typ); ok && len(of) > 0 {
			return "list of " + kindOf(of)
		}
		return "list"
	case "object":
		if of, ok := t["additionalProperties"].(typ); ok && len(of) > 0 {
			return "map of " + kindOf(of)
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

// boundsOf says between which values a number is to be, "" for what is none.
func boundsOf(t typ) string {
	if all, ok := t["anyOf"].([]typ); ok {
		for _, one := range all {
			if b := boundsOf(one); b != "" {
				return b
			}
		}
	}
	least, greatest := t["minimum"], t["maximum"]
	switch {
	case least != nil && greatest != nil:
		return fmt.Sprintf("%v to %v", least, greatest)
	case least != nil:
		return fmt.Sprintf("%v or more", least)
	}
	return ""
}
