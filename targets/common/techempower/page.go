package techempower

import (
	"strconv"
	"strings"
)

var escapes = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&#39;")

// Page is the page of fortunes, written as a compiled template would write it.
func Page(fortunes []Fortune) []byte {
	out := make([]byte, 0, 2048)
	out = append(out, "<!DOCTYPE html><html><head><title>Fortunes</title></head><body><table>"...)
	out = append(out, "<tr><th>id</th><th>message</th></tr>"...)
	for _, one := range fortunes {
		out = append(out, "<tr><td>"...)
		out = strconv.AppendInt(out, int64(one.ID), 10)
		out = append(out, "</td><td>"...)
		out = append(out, escapes.Replace(one.Message)...)
		out = append(out, "</td></tr>"...)
	}
	return append(out, "</table></body></html>"...)
}
