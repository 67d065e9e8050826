package action

import (
	"encoding/json"
	"fmt"
	"mime"
	"net/url"
	"strings"

	"github.com/bide-dev/bide/internal/expr"
	"github.com/bide-dev/bide/internal/pattern"
	"github.com/bide-dev/bide/internal/template"
	"github.com/bide-dev/bide/internal/value"
)

// This file puts data into requests: a value from outside is escaped for its place, so that
// it changes neither whom a request goes to nor what is asked. What the author or the caller
// wrote, and what has |raw, is taken as it is.

// expandURL fills in an address. One that is data as a whole, or begins with an address that is
// data, is what the author asks for. Data in the place of the server's name are a name, or a
// part of one between dots and dashes; data right behind the name are a path.
func expandURL(t *template.Text, sc template.Scope) (string, error) {
	if t.IsReference() {
		return t.Expand(sc)
	}
	return t.ExpandPlaced(sc, func(before, data string) (string, error) {
		_, rest, named := strings.Cut(before, "://")
		inName := named && !strings.ContainsAny(rest, "/?#")
		switch {
		case inName && inHost(rest, data), before == "" && isBase(data):
			return data, nil
		case inName && rest != "" && strings.HasPrefix(data, "/"):
			return escapedPath(data)
		case inName || !named:
			return "", &expr.SyntaxError{Message: "data would choose the server of the request: it is no name of one, or stands in the middle of a name",
				Suggestion: "write scheme and name in the file, with a / behind them, or ${…|raw} where the data may choose"}
		case strings.ContainsAny(rest, "?#"):
			return strings.ReplaceAll(url.QueryEscape(data), "+", "%20"), nil
		}
		segment := rest[strings.LastIndexByte(rest, '/')+1:] + data
		if segment == "." || segment == ".." {
			return "", fmt.Errorf("%q in a path leads to another one; write ${…|raw} where the data may choose the path", segment)
		}
		return url.PathEscape(data), nil
	})
}

var (
	serverName = pattern.Lazy(`^([A-Za-z0-9_]([A-Za-z0-9._-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])(:[0-9]+)?$`)
	namePart   = pattern.Lazy(`^[A-Za-z0-9_]+(-[A-Za-z0-9_]+)*$`)
	portNumber = pattern.Lazy(`^[0-9]+$`)
)

// inHost reports whether data may be in the name of a server, behind a part of it: the
// whole name, a part of one, or the port.
func inHost(before, data string) bool {
	switch {
	case before == "":
		return serverName().MatchString(data)
	case strings.HasSuffix(before, "."), strings.HasSuffix(before, "-"):
		return namePart().MatchString(data)
	}
	return strings.HasSuffix(before, ":") && portNumber().MatchString(data)
}

// isBase reports whether data are an address that continues behind them.
func isBase(data string) bool {
	u, err := url.Parse(data)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.User == nil && serverName().MatchString(u.Host) && !strings.ContainsAny(data, "?#")
}

// escapedPath is a path that is data.
func escapedPath(data string) (string, error) {
	parts := strings.Split(data, "/")
	for i, part := range parts {
		if part == "." || part == ".." {
			return "", fmt.Errorf("%q in a path leads to another one; write ${…|raw} where the data may choose the path", part)
		}
		parts[i] = url.PathEscape(part)
	}
	return strings.Join(parts, "/"), nil
}

// expandBody fills in a body that is a text. kind is its content type; "" where none is set.
func expandBody(t *template.Text, kind string, sc template.Scope) (string, error) {
	media, _, err := mime.ParseMediaType(kind)
	if err != nil {
		media = kind
	}
	const form = "application/x-www-form-urlencoded"
	switch {
	case isJSON(t, media):
		return t.ExpandPlaced(sc, func(before, data string) (string, error) { return inJSON(before, data), nil })
	case media == form && !t.IsReference():
		return t.ExpandPlaced(sc, func(_, data string) (string, error) { return url.QueryEscape(data), nil })
	}
	return t.Expand(sc)
}

// isJSON reports whether a text is JSON in which there are values: it is by itself, or its
// content type says so. One that is a value alone is whatever that is.
func isJSON(t *template.Text, media string) bool {
	outline := strings.TrimSpace(t.Outline("0"))
	if outline == "" || !strings.ContainsRune(`{["`, rune(outline[0])) {
		return false
	}
	return media == "application/json" || strings.HasSuffix(media, "+json") || json.Valid([]byte(outline))
}

// inJSON is data as it is in a JSON text: in a string a part of it, elsewhere a value,
// which is a string where the data are no JSON.
func inJSON(before, data string) string {
	switch {
	case value.InJSONString(before):
		return value.JSONStringPart(data)
	case json.Valid([]byte(data)):
		return data
	}
	return value.JSON(data)
}
