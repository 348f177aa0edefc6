package why

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/screen"
	"github.com/bellerophon-io/bellerophon/controller/history"
	"github.com/bellerophon-io/bellerophon/operators"
)

// Printer prints answers for a person. It prints each attempt once.
type Printer struct {
	screen  *screen.Screen
	printed map[string]bool // IDs of attempts
	headed  map[string]bool // controllers
	waiting map[string]bool // controllers that had no attempt
}

// NewPrinter creates a printer.
func NewPrinter(to *screen.Screen) *Printer {
	return &Printer{screen: to, printed: map[string]bool{}, headed: map[string]bool{}, waiting: map[string]bool{}}
}

// Print prints what is new in an answer. With settled, an attempt whose writes the watch has not shown yet waits for a
// later answer, which has the echoes.
func (t *Printer) Print(answer history.Answer, object, namespace string, settled bool) {
	for _, of := range answer.Controllers {
		if !t.headed[of.Name] {
			t.headed[of.Name] = true
			t.head(of, object, namespace)
		}
		if len(of.Attempts) == 0 && !t.waiting[of.Name] {
			t.waiting[of.Name] = true
			t.screen.Println("  no attempt is remembered: " + silence(of))
		}
		for i, attempt := range of.Attempts {
			if t.printed[attempt.ID] || settled && !isShown(attempt) && i == len(of.Attempts)-1 {
				continue
			}
			t.printed[attempt.ID] = true
			t.attempt(attempt)
		}
		if of.RunningSince != nil && !settled {
			t.screen.Println(fmt.Sprintf("  an attempt has run for %s", ago(answer.Time.Sub(*of.RunningSince))))
		}
	}
}

func (t *Printer) head(of history.Controller, object, namespace string) {
	_, name, _ := strings.Cut(object, "/")
	if namespace != "" {
		name = namespace + "/" + name
	}
	t.screen.Println(fmt.Sprintf("%s %s, controller %s, level of sync %v", screen.Clean(of.Kind), t.screen.Paint(screen.Bold, screen.Clean(name)), screen.Clean(of.Name), of.Level))
	if len(of.Missing) > 0 {
		t.screen.Println("  the next level waits for " + screen.Clean(strings.Join(of.Missing, ", ")))
	}
}

// silence returns the reason why there is no attempt.
func silence(of history.Controller) string {
	switch {
	case of.RunningSince != nil:
		return "the first one runs"
	case !of.Cached:
		return "the cache does not have the object; look at its name and its namespace"
	case len(of.Missing) > 0:
		return "the controller may wait for its kinds"
	}
	return "the attempts are older than the history, or another replica leads"
}

// isShown reports whether the watch has shown all writes of an attempt.
func isShown(attempt history.Attempt) bool {
	for _, write := range attempt.Writes {
		if write.Seen == nil {
			return false
		}
	}
	return true
}

func (t *Printer) attempt(of history.Attempt) {
	colour := screen.Green
	if of.Error != "" {
		colour = screen.Red
	}
	line := fmt.Sprintf("%s  an attempt %s after %s", of.Started.Local().Format("15:04:05.000"), t.screen.Paint(colour, ended[of.Outcome]), ago(seconds(of.Seconds)))
	if of.Attempt > 1 {
		line += fmt.Sprintf(", number %d in a row", of.Attempt)
	}
	t.screen.Println(line + "  " + t.screen.Paint(screen.Dim, screen.Clean(of.ID)))
	if len(of.Causes) == 0 {
		t.line("because", "a retry, a timer or a stream asked for it")
	}
	if of.LeftOut {
		t.line("because", "of more events, which are left out")
	}
	for i := range of.Causes {
		t.line("because", because(&of.Causes[i], of.Started))
	}
	if len(of.Waits) > 0 {
		var waits []string
		for _, wait := range of.Waits {
			waits = append(waits, ago(seconds(wait.Seconds))+" "+waitedFor[wait.For])
		}
		t.line("waited", strings.Join(waits, ", "))
	}
	if len(of.Reads) > 0 {
		t.line("read", read(&of))
	}
	for i := range of.Writes {
		t.line("wrote", wrote(&of.Writes[i]))
	}
	for _, call := range of.Calls {
		if call.Method == http.MethodGet || call.Code < 200 || call.Code > 299 { // The lines above have the writes that succeeded.
			t.line("asked", asked(call))
		}
	}
	if of.Error != "" {
		t.line("error", of.Error)
	}
	if of.Again > 0 {
		t.line("next", "after "+ago(seconds(of.Again))+", or with an event")
	}
}

// ended says how an attempt ended, by its outcome.
var ended = map[string]string{
	string(operators.Succeeded): "succeeded",
	string(operators.Requeued):  "succeeded, for now,",
	string(operators.Failed):    "failed",
	string(operators.Ended):     "failed for good",
}

// line prints one line about an attempt. The text has names and messages of other programs.
func (t *Printer) line(what, text string) {
	t.screen.Println(fmt.Sprintf("  %-8s %s", what, screen.Clean(text)))
}

var waitedFor = map[string]string{
	history.WaitDebounce: "in the debounce",
	history.WaitRunning:  "for the attempt before it",
	history.WaitBackoff:  "for the backoff",
	history.WaitGate:     "for the controller's kinds",
	history.WaitQueue:    "for a worker",
}

// because describes what an event changed, and how long before the attempt it came.
func because(of *history.Cause, started time.Time) string {
	text := nameOf(of.Object) + " "
	switch {
	case of.Change != "":
		text += "was " + of.Change
	case of.Event == "Listed":
		text += "was in a list"
	default:
		text += "had the event " + of.Event
	}
	if len(of.Fields) > 0 {
		text += ": " + strings.Join(of.Fields, ", ")
	}
	if of.Partial {
		text += " (of what the cache keeps)"
	}
	for _, manager := range of.Managers {
		text += ", by the field manager " + manager.Name
	}
	if of.WrittenBy != "" {
		text += ", written by " + of.WrittenBy
	}
	return text + ", " + ago(started.Sub(of.Received)) + " before"
}

// read describes the reads of the cache in one line. A read of the same version is shown once.
func read(of *history.Attempt) string {
	var shown []string
	for _, one := range of.Reads {
		text := nameOf(one.Object)
		switch {
		case one.Name == "" && one.Namespace != "":
			text = fmt.Sprintf("%d of %s in %s", one.Objects, one.Kind, one.Namespace)
		case one.Name == "":
			text = fmt.Sprintf("%d of %s", one.Objects, one.Kind)
		case one.Objects == 0:
			text += " (not there)"
		}
		if !slices.Contains(shown, text) {
			shown = append(shown, text)
		}
	}
	if of.Unread > 0 {
		shown = append(shown, fmt.Sprintf("and %d more", of.Unread))
	}
	return strings.Join(shown, ", ")
}

func wrote(of *history.Write) string {
	text := of.Verb + " " + nameOf(of.Object)
	if len(of.Fields) > 0 {
		text += ": " + strings.Join(of.Fields, ", ")
	}
	if of.Seconds > 0 {
		text += ", answered after " + ago(seconds(of.Seconds))
	}
	if of.Seen != nil {
		text += ", seen " + ago(max(0, of.Seen.Sub(of.Answered))) + " later"
	}
	return text
}

func asked(of history.Call) string {
	answer := "no answer"
	if of.Code != 0 {
		answer = fmt.Sprintf("%d %s", of.Code, http.StatusText(of.Code))
	}
	return fmt.Sprintf("%s %s: %s after %s", of.Method, of.Path, answer, ago(seconds(of.Seconds)))
}

func nameOf(of history.Object) string {
	name := of.Kind + " " + of.Name
	if of.ResourceVersion != "" {
		name += "@" + of.ResourceVersion
	}
	return name
}

func seconds(of float64) time.Duration { return time.Duration(of * float64(time.Second)) }

// ago formats a time as a person would say it.
func ago(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return "0 ms"
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < 2*time.Minute:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	}
	return fmt.Sprintf("%d h", int(d.Hours()))
}
