package controller

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/bellerophon-io/bellerophon/controller/recording"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/operators"
	"k8s.io/apimachinery/pkg/types"
)

// Replayed is the outcome of a [Replay].
type Replayed struct {
	Attempts    int          // that were made again and compared
	Skipped     int          // attempts that could not be compared: cut off by the end of the recording or of the program
	Cut         bool         // the recording begins in the middle, so that reconcilers may have known more
	Differences []Difference // attempts that decided otherwise, in the order in which they ended
	Made        []Made       // all attempts that were compared, in the same order
}

// Difference is an attempt that decided otherwise than in the recording. Its lines say how. A line with "-" is only in
// the recording, and one with "+" only in the replay.
type Difference struct {
	Controller string
	Object     types.NamespacedName
	ID         string // the reconcileID of the recording
	At         time.Time
	Lines      []string
}

// Made is an attempt as it was made in the replay.
type Made struct {
	Controller string
	Object     types.NamespacedName
	ID         string // the reconcileID of the recording
	Err        error
	Requests   []string // method and URL, in the order in which they were sent
	Reads      []uint64 // of the cache: hashes of the objects with their versions that each read has found
}

// conclude compares an attempt with the recording. An attempt that goes on is ended.
func (r *replay) conclude(attempt *replayedAttempt, recorded *recording.End) {
	r.wait()
	delete(r.attempts, recorded.Attempt)
	var lines []string
	select {
	case <-attempt.ended:
	default:
		if recorded.Cancelled {
			break
		}
		lines = append(lines, "+ it still runs at the time at which it ended in the recording")
	}
	attempt.cancel()
	<-attempt.ended
	if recorded.Cancelled {
		r.result.Skipped++
		return
	}
	r.result.Attempts++
	attempt.mu.Lock()
	defer attempt.mu.Unlock()
	lines = append(lines, attempt.differences...)
	for _, known := range attempt.exchanges {
		if !known.sent {
			body, _ := asJSON(known.Body, known.ContentType, r.codec)
			lines = append(lines, "- "+describeRequest(known.Method, known.URL, body))
		}
	}
	lines = append(lines, differOutcome(recorded, &attempt.result)...)
	of := attempt.start
	made := Made{of.Request.Controller, of.Name(), of.ID, attempt.result.Err, attempt.requests, attempt.read}
	var difference *Difference
	if len(lines) > 0 {
		difference = &Difference{of.Request.Controller, of.Name(), of.ID, time.Now(), lines}
	}
	if r.each != nil { // It goes on for long, so nothing is kept.
		r.each(made, difference)
		return
	}
	if difference != nil {
		r.result.Differences = append(r.result.Differences, *difference)
	}
	r.result.Made = append(r.result.Made, made)
}

// differOutcome returns how the outcome of an attempt differs from the recording.
func differOutcome(recorded *recording.End, now *operators.Result) (lines []string) {
	was, is := "succeeded", "succeeded"
	switch {
	case recorded.Panicked:
		was = "panicked"
	case recorded.Err != "":
		was = "failed: " + withoutHost(recorded.Err)
	}
	var panicked *lifecycle.PanicError
	switch {
	case errors.As(now.Err, &panicked):
		is = "panicked"
	case now.Err != nil:
		is = "failed: " + withoutHost(now.Err.Error())
	}
	if timedOut := errors.Is(now.Err, operators.ErrTimeout) && strings.HasSuffix(is, strings.TrimPrefix(was, "failed: ")); was != is && !timedOut {
		lines = append(lines, "- "+was, "+ "+is)
	}
	if recorded.Err != "" && now.Err != nil && recorded.Terminal != operators.IsTerminal(now.Err) {
		lines = append(lines, "- "+whetherRetried(recorded.Terminal), "+ "+whetherRetried(!recorded.Terminal))
	}
	if recorded.Err == "" && now.Err == nil && !recorded.Panicked && !isSameWait(recorded.Again, now.RequeueAfter) {
		lines = append(lines, fmt.Sprintf("- another attempt after %v", recorded.Again), fmt.Sprintf("+ another attempt after %v", now.RequeueAfter))
	}
	return lines
}

func whetherRetried(isTerminal bool) string {
	if isTerminal {
		return "no attempt after the failure: the error is terminal"
	}
	return "another attempt after the failure: the error is not terminal"
}

// host matches the host in the URL of an error, which is another one in a replay. A path of a proxy may follow it.
var host = regexp.MustCompile(`https?://[^/" ]+((?:/[^/" ]+)*?(/apis?/))?`)

func withoutHost(text string) string { return host.ReplaceAllString(text, "$2") }

// isSameWait reports whether two waits are the same decision. Reconcilers compute waits from the time. Code takes no time
// in a replay, and on a busy machine it was paused between any two records: for 150 ms in bursts of 300 objects.
func isSameWait(one, other time.Duration) bool {
	return (one > 0) == (other > 0) && (one-other).Abs() <= max(250*time.Millisecond, one/4)
}

// differ returns how two JSON documents differ, a line for each field. It does not compare values of Secrets that
// the recording hides.
func differ(recorded, now []byte, secret bool) []string {
	if bytes.Equal(recorded, now) {
		return nil
	}
	var was, is any
	if len(recorded) > 0 && json.Unmarshal(recorded, &was) != nil || len(now) > 0 && json.Unmarshal(now, &is) != nil {
		return []string{"  the bodies differ"}
	}
	var lines []string
	differFields("", was, is, secret, &lines)
	return lines
}

func differFields(path string, was, is any, secret bool, lines *[]string) {
	wasMap, isMap := nodesOf(was), nodesOf(is)
	if wasMap == nil || isMap == nil {
		if _, isText := is.(string); secret && isText && isHidden(was) || isSameTime(was, is) {
			return
		}
		if before, after := encoded(was), encoded(is); before != after {
			*lines = append(*lines, fmt.Sprintf("  - %s: %s", cmp.Or(path, "body"), before), fmt.Sprintf("  + %s: %s", cmp.Or(path, "body"), after))
		}
		return
	}
	names := slices.Collect(maps.Keys(wasMap))
	for name := range isMap {
		if _, known := wasMap[name]; !known {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		before, had := wasMap[name]
		after, has := isMap[name]
		at := strings.TrimPrefix(path+"."+name, ".")
		switch {
		case !has:
			*lines = append(*lines, fmt.Sprintf("  - %s: %s", at, encoded(before)))
		case !had:
			*lines = append(*lines, fmt.Sprintf("  + %s: %s", at, encoded(after)))
		default:
			differFields(at, before, after, secret, lines)
		}
	}
}

// nodesOf returns the fields of an object, or the items of a list by their numbers; nil for any other value.
func nodesOf(value any) map[string]any {
	switch value := value.(type) {
	case map[string]any:
		return value
	case []any:
		fields := map[string]any{}
		for i, item := range value {
			fields[fmt.Sprint(i)] = item
		}
		return fields
	}
	return nil
}

// isSameTime reports whether two values are times that differ by at most two seconds. Times in objects are in whole
// seconds, and code takes no time in a replay.
func isSameTime(one, other any) bool {
	oneText, _ := one.(string)
	otherText, _ := other.(string)
	oneTime, err := time.Parse(time.RFC3339Nano, oneText)
	otherTime, otherErr := time.Parse(time.RFC3339Nano, otherText)
	return err == nil && otherErr == nil && oneTime.Sub(otherTime).Abs() <= 2*time.Second
}

// isHidden reports whether a value is the hash of a value of a Secret.
func isHidden(value any) bool {
	text, is := value.(string)
	if decoded, err := base64.StdEncoding.DecodeString(text); is && err == nil && recording.IsHidden(string(decoded)) {
		return true
	}
	return is && recording.IsHidden(text)
}

func encoded(value any) string {
	const most = 200
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	if len(text) > most {
		return string(text[:most]) + "…"
	}
	return string(text)
}
