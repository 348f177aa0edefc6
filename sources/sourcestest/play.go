package sourcestest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"time"

	"github.com/bellerophon-io/bellerophon/streams"
)

// Play reads a recording of [Record], and returns a stream that emits its events and errors with the times
// between them, in virtual time too. Received is the time of the playback. After the last event, the stream stays
// open, as a source does. Each observation plays the recording from its start.
//
// examples has an object of each Go type in the recording, such as &corev1.ConfigMap{}. Fields that are not
// in the JSON of a type are lost. Play returns an error that names the line of the recording that it cannot
// read.
func Play(recording io.Reader, examples ...streams.Object) (streams.Stream[streams.Event], error) {
	goTypes := map[string]reflect.Type{}
	for _, example := range examples {
		goTypes[fmt.Sprintf("%T", example)] = reflect.TypeOf(example)
	}
	var played []playedLine
	lines := bufio.NewReader(recording)
	for number := 1; ; number++ {
		text, err := lines.ReadBytes('\n')
		if len(text) > 0 {
			made, failed := playedOf(text, goTypes)
			if failed != nil {
				return streams.Stream[streams.Event]{}, fmt.Errorf("sourcestest: line %d of the recording: %w", number, failed)
			}
			played = append(played, made)
		}
		switch {
		case errors.Is(err, io.EOF):
			return playing(played), nil
		case err != nil:
			return streams.Stream[streams.Event]{}, fmt.Errorf("sourcestest: reading line %d of the recording: %w", number, err)
		}
	}
}

// playedLine is a line of a recording that was read.
type playedLine struct {
	line
	object streams.Object
}

// playedOf reads one line.
func playedOf(text []byte, goTypes map[string]reflect.Type) (playedLine, error) {
	made := playedLine{}
	reader := json.NewDecoder(bytes.NewReader(text))
	reader.DisallowUnknownFields()
	if err := reader.Decode(&made.line); err != nil {
		return made, err
	}
	if made.GoType == "" {
		return made, nil
	}
	of := goTypes[made.GoType]
	if of == nil || of.Kind() != reflect.Pointer {
		return made, fmt.Errorf("the object is a %s; give Play an example of the type", made.GoType)
	}
	made.object = reflect.New(of.Elem()).Interface().(streams.Object)
	return made, json.Unmarshal(made.Object, made.object)
}

// playing returns a stream that plays lines.
func playing(lines []playedLine) streams.Stream[streams.Event] {
	return streams.Create(func(ctx context.Context, out streams.Sink[streams.Event]) {
		started := time.Now()
		timer := time.NewTimer(0)
		defer timer.Stop()
		for from := 0; from < len(lines); {
			timer.Reset(time.Until(started.Add(lines[from].At)))
			select {
			case <-ctx.Done():
				return
			case <-timer.C:
			}
			to := from + 1
			for to < len(lines) && lines[to].Batch == lines[from].Batch && lines[to].Error == "" {
				to++
			}
			if first := lines[from]; first.Error != "" {
				to = from + 1
				out.Error(&streams.Error{Source: first.Source, Key: first.Key.key(), Err: errors.New(first.Error)})
			} else {
				out.Send(eventsOf(lines[from:to], started))
			}
			from = to
		}
		<-ctx.Done()
	})
}

// eventsOf returns the events of lines, for a recording that started at the given time.
func eventsOf(lines []playedLine, started time.Time) []streams.Event {
	events := make([]streams.Event, len(lines))
	for i, of := range lines {
		events[i] = streams.Event{
			Type: of.Type, Reset: of.Reset, Source: of.Source, Key: of.Key.key(), Object: of.object,
			ResourceVersion: of.ResourceVersion, Received: started.Add(of.Received),
		}
		for _, made := range of.Coalesced {
			events[i].Coalesced = append(events[i].Coalesced, streams.Cause{
				Type: made.Type, Key: made.Key.key(), ResourceVersion: made.ResourceVersion, Received: started.Add(made.Received),
			})
		}
	}
	return events
}
