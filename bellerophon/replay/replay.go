// Package replay replays recordings of Bellerophon's operator, and turns an incident into a test.
package replay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/hero"
	"github.com/bellerophon-io/bellerophon/bellerophon/operator"
	"github.com/bellerophon-io/bellerophon/bellerophon/screen"
	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/controller/recording"
	"github.com/bellerophon-io/bellerophon/controller/replaytest"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// Options says what to replay.
type Options struct {
	Path   string // of a recording: a folder or a file
	Object string // NAME or NAMESPACE/NAME; empty for all
	ToTest string // a folder into which a test of the object's incident is written; empty for none
	JSON   bool
}

// Report is the outcome, as JSON.
type Report struct {
	First       time.Time    `json:"first"`
	Last        time.Time    `json:"last"`
	Records     int          `json:"records"`
	Attempts    int          `json:"attempts"` // that were compared
	Skipped     int          `json:"skipped"`
	Cut         bool         `json:"beginsInTheMiddle"`
	Seconds     float64      `json:"seconds"` // that the replay took
	Differences []Difference `json:"differences"`
	Incident    string       `json:"incident,omitempty"`
	Test        string       `json:"test,omitempty"` // the file that was written
}

// Difference is an attempt that decided otherwise.
type Difference struct {
	At         time.Time `json:"at"`
	Controller string    `json:"controller"`
	Object     string    `json:"object"`
	ID         string    `json:"id"`
	Lines      []string  `json:"lines"`
}

// ErrDiffers is returned if an attempt decided otherwise than in the recording.
type ErrDiffers struct{ Attempts int }

func (e ErrDiffers) Error() string {
	return fmt.Sprintf("%d attempts decided otherwise than in the recording", e.Attempts)
}

// setup returns what creates the operator that made a recording.
func setup(of *recording.Recording) controller.Setup {
	return func(config *rest.Config, options controller.Options) (*controller.Manager, error) {
		return operator.New(config, options, operator.Kinds{Heroes: hasHeroes(of)})
	}
}

func hasHeroes(of *recording.Recording) bool { return slices.Contains(of.Controllers, hero.Name) }

// Run replays a recording, prints the outcome, and returns ErrDiffers if there are differences. It may be called
// once in a process.
func Run(ctx context.Context, options Options, to *screen.Screen) error {
	object, err := parseObject(options.Object)
	if err != nil {
		return err
	}
	if options.ToTest != "" && object.Name == "" {
		return errors.New("--to-test needs --object: the object whose last failure or last write must not happen")
	}
	of, err := recording.Open(options.Path)
	if err != nil {
		return err
	}
	report := Report{Records: len(of.Records), Differences: []Difference{}}
	report.First, report.Last = of.Span()
	if !options.JSON {
		head(to, of, report)
	}
	debug.SetGCPercent(400) // A replay allocates much in little time, and this process does nothing else.
	runtime.GOMAXPROCS(1)   // One goroutine of a replay hands over to the next. Waking another processor takes a fifth of the time.
	inTest(ctx, func(t *testing.T) {
		began := time.Now()
		var replayed *controller.Replayed
		synctest.Test(t, func(t *testing.T) { replayed, err = controller.Replay(t.Context(), of, setup(of), synctest.Wait) })
		if report.Seconds = time.Since(began).Seconds(); err != nil {
			return
		}
		report.add(replayed, object)
		if options.ToTest != "" {
			err = report.writeTest(t, of, object, options.ToTest)
		}
	})
	if err != nil {
		return err
	}
	if options.JSON {
		encoder := json.NewEncoder(to)
		encoder.SetIndent("", "  ")
		err = encoder.Encode(report)
	} else {
		report.print(to)
	}
	return errors.Join(err, report.verdict())
}

// verdict returns an error if an attempt decided otherwise, or if none was compared.
func (r *Report) verdict() error {
	switch {
	case len(r.Differences) > 0:
		return ErrDiffers{len(r.Differences)}
	case r.Attempts == 0 && r.Skipped > 0:
		return fmt.Errorf("none of the %d attempts could be compared, so this shows nothing; give a recording of this operator, and a longer one", r.Skipped)
	}
	return nil
}

// parseObject parses NAME or NAMESPACE/NAME.
func parseObject(text string) (types.NamespacedName, error) {
	if text == "" {
		return types.NamespacedName{}, nil
	}
	namespace, name, both := strings.Cut(text, "/")
	if !both {
		namespace, name = "default", text
	}
	if name == "" || strings.Contains(name, "/") {
		return types.NamespacedName{}, fmt.Errorf("--object is %q; give NAME, or NAMESPACE/NAME", text)
	}
	return types.NamespacedName{Namespace: namespace, Name: name}, nil
}

func (r *Report) add(replayed *controller.Replayed, object types.NamespacedName) {
	r.Attempts, r.Skipped, r.Cut = replayed.Attempts, replayed.Skipped, replayed.Cut
	for _, difference := range replayed.Differences {
		if object.Name == "" || difference.Object == object {
			r.Differences = append(r.Differences, differenceOf(&difference))
		}
	}
}

func differenceOf(of *controller.Difference) Difference {
	return Difference{of.At, of.Controller, of.Object.String(), of.ID, of.Lines}
}

func (d Difference) print(to *screen.Screen) {
	to.Println(fmt.Sprintf("%s  %s %s  %s", d.At.Local().Format("15:04:05.000"), screen.Clean(d.Controller), to.Paint(screen.Bold, screen.Clean(d.Object)),
		to.Paint(screen.Dim, screen.Clean(d.ID))))
	for _, line := range d.Lines {
		colour := screen.Bold
		switch sign := strings.TrimSpace(line); {
		case strings.HasPrefix(sign, "-"):
			colour = screen.Red
		case strings.HasPrefix(sign, "+"):
			colour = screen.Green
		}
		to.Println("  " + to.Paint(colour, screen.Clean(line)))
	}
}

func head(to *screen.Screen, of *recording.Recording, report Report) {
	to.Println(fmt.Sprintf("%s: %d records from %s to %s (%v)", screen.Clean(of.Version), report.Records,
		report.First.Local().Format(time.DateTime), report.Last.Local().Format(time.TimeOnly), report.Last.Sub(report.First).Round(time.Second)))
	if of.IsCut {
		to.Println("  it begins in the middle: reconcilers remember nothing from before, so the first attempts may differ")
	}
	if !of.IsWhole {
		to.Println("  the last file is still being written, or its writer was killed; its complete records count")
	}
}

func (r *Report) print(to *screen.Screen) {
	for _, difference := range r.Differences {
		difference.print(to)
	}
	verdict := to.Paint(screen.Green, "all decided as in the recording")
	switch {
	case len(r.Differences) > 0:
		verdict = to.Paint(screen.Red, fmt.Sprintf("%d decided otherwise", len(r.Differences)))
	case r.Attempts == 0:
		verdict = to.Paint(screen.Yellow, "nothing was compared")
	}
	to.Println(fmt.Sprintf("%d attempts in %.2f s: %s", r.Attempts, r.Seconds, verdict))
	if r.Skipped > 0 {
		to.Println(fmt.Sprintf("  %d attempts were not compared: they are cut off, or this operator lacks their controller", r.Skipped))
	}
	if r.Test != "" {
		to.Println("  " + screen.Clean(r.Incident))
		to.Println("  a test that fails as long as this happens: go test " + filepath.Dir(r.Test))
	}
}

// writeTest writes a test of an object's incident, and the recording that it needs.
func (r *Report) writeTest(t *testing.T, of *recording.Recording, object types.NamespacedName, dir string) error {
	incident, err := replaytest.FindIncident(of, "", object)
	if err != nil {
		return err
	}
	shrunk, err := replaytest.Shrink(t, of, setup(of), incident)
	if err != nil {
		return err
	}
	r.Incident = fmt.Sprintf("%v; %d of %d records are left", incident, len(shrunk.Records), len(of.Records))
	if err := os.MkdirAll(filepath.Join(dir, "testdata"), 0o755); err != nil {
		return fmt.Errorf("making the folder of the test: %w", err)
	}
	file := "testdata/" + incident.ID + ".recording"
	if err := shrunk.Save(filepath.Join(dir, file)); err != nil {
		return err
	}
	r.Test = filepath.Join(dir, "incident_"+incident.ID+"_test.go")
	made, err := os.OpenFile(r.Test, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("writing the test: %w", err)
	}
	err = writeSource(made, source{
		Package: packageOf(dir), Incident: incident, File: file, Heroes: hasHeroes(of), At: r.Last.UTC().Format(time.DateTime),
	})
	if closeErr := made.Close(); err == nil {
		err = closeErr
	}
	return err
}

// packageOf returns a name for the package of a folder.
func packageOf(dir string) string {
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return "incident_test"
	}
	name := strings.Map(func(letter rune) rune {
		if letter >= 'a' && letter <= 'z' || letter >= '0' && letter <= '9' {
			return letter
		}
		return -1
	}, strings.ToLower(filepath.Base(absolute)))
	if name == "" || name[0] >= '0' && name[0] <= '9' {
		name = "incident" + name
	}
	return name + "_test"
}
