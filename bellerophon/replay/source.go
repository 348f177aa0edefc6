package replay

import (
	_ "embed"
	"fmt"
	"io"
	"text/template"

	"github.com/bellerophon-io/bellerophon/bellerophon/screen"
	"github.com/bellerophon-io/bellerophon/controller/replaytest"
)

// source is what a generated test is made of.
type source struct {
	Package  string
	Incident replaytest.Incident
	File     string
	Heroes   bool
	At       string
}

//go:embed incident_test.go.tmpl
var sourceTemplate string

var generated = template.Must(template.New("test").Funcs(template.FuncMap{"clean": screen.Clean}).Parse(sourceTemplate))

// writeSource writes the Go source of a test.
func writeSource(to io.Writer, of source) error {
	if err := generated.Execute(to, of); err != nil {
		return fmt.Errorf("writing the test: %w", err)
	}
	return nil
}
