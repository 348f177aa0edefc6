package webhook_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/bellerophon-io/bellerophon/controller/webhook"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"pgregory.net/rapid"
)

// anyJSON generates JSON values.
func anyJSON(depth int) *rapid.Generator[any] {
	leaves := []*rapid.Generator[any]{
		rapid.Int64().AsAny(), rapid.Bool().AsAny(), rapid.SampledFrom([]string{"", "a", "~", "/"}).AsAny(), rapid.Just[any](nil),
	}
	if depth == 0 {
		return rapid.OneOf(leaves...)
	}
	fields := rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "a/b", "~c", "", "d~1"}), anyJSON(depth-1), 0, 4)
	elements := rapid.SliceOfN(anyJSON(depth-1), 0, 4)
	return rapid.OneOf(append(leaves, fields.AsAny(), elements.AsAny())...)
}

func object(t *rapid.T, label string) map[string]any {
	return rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "a/b", "~c"}), anyJSON(3), 0, 4).Draw(t, label)
}

func decoded(t *rapid.T, encoded []byte) (value any) {
	if err := utiljson.Unmarshal(encoded, &value); err != nil {
		t.Fatalf("%s: %v", encoded, err)
	}
	return value
}

func TestAPatchMakesWhatTheFunctionMade(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before, err := json.Marshal(object(t, "before"))
		if err != nil {
			t.Fatal(err)
		}
		after, err := json.Marshal(object(t, "after"))
		if err != nil {
			t.Fatal(err)
		}
		made, err := webhook.PatchOf(before, before, after)
		if err != nil {
			t.Fatal(err)
		}
		result := before
		if made != nil {
			patch, err := jsonpatch.DecodePatch(made)
			if err != nil {
				t.Fatalf("%s: %v", made, err)
			}
			if result, err = patch.Apply(before); err != nil {
				t.Fatalf("%s of %s: %v", made, before, err)
			}
		}
		if got, want := decoded(t, result), decoded(t, after); !reflect.DeepEqual(got, want) {
			t.Fatalf("the patch %s of %s makes %s, want %s", made, before, result, after)
		}
	})
}

func TestAPatchKeepsWhatTheTypeDoesNotHave(t *testing.T) {
	for name, test := range map[string]struct{ raw, before, after, want string }{
		"nothing changed":               {`{"x":1}`, `{"status":{"n":0}}`, `{"status":{"n":0}}`, ``},
		"a field beside unknown ones":   {`{"x":1}`, `{"a":""}`, `{"a":"b"}`, `[{"op":"add","path":"/a","value":"b"}]`},
		"below a missing struct":        {`{"x":1}`, `{"s":{"n":0,"m":0}}`, `{"s":{"n":3,"m":0}}`, `[{"op":"add","path":"/s","value":{"n":3}}]`},
		"a changed element":             {`{"l":[{"n":1,"x":1}]}`, `{"l":[{"n":1}]}`, `{"l":[{"n":2}]}`, `[{"op":"replace","path":"/l/0/n","value":2}]`},
		"an added element":              {`{"l":[{"n":1,"x":1}]}`, `{"l":[{"n":1}]}`, `{"l":[{"n":1},{"n":2}]}`, `[{"op":"add","path":"/l/-","value":{"n":2}}]`},
		"a removed first element":       {`{"l":[{"n":1,"x":1},{"n":2,"x":2}]}`, `{"l":[{"n":1},{"n":2}]}`, `{"l":[{"n":2}]}`, `[{"op":"replace","path":"/l/0/n","value":2},{"op":"replace","path":"/l/0/x","value":2},{"op":"remove","path":"/l/1"}]`},
		"a removed field":               {`{"a":1,"x":1}`, `{"a":1}`, `{}`, `[{"op":"remove","path":"/a"}]`},
		"a field that is set to null":   {`{"a":1}`, `{"a":1}`, `{"a":null}`, `[{"op":"replace","path":"/a","value":null}]`},
		"a large integer":               {`{"a":1}`, `{"a":1}`, `{"a":9007199254740993}`, `[{"op":"replace","path":"/a","value":9007199254740993}]`},
		"a name with slash and tilde":   {`{}`, `{}`, `{"a/b~c":1}`, `[{"op":"add","path":"/a~1b~0c","value":1}]`},
		"a map that had been left out":  {`{}`, `{"labels":null}`, `{"labels":{"a":"b"}}`, `[{"op":"add","path":"/labels","value":{"a":"b"}}]`},
		"a list that had been left out": {`{}`, `{}`, `{"l":[1]}`, `[{"op":"add","path":"/l","value":[1]}]`},
	} {
		t.Run(name, func(t *testing.T) {
			made, err := webhook.PatchOf([]byte(test.raw), []byte(test.before), []byte(test.after))
			if err != nil || string(made) != test.want {
				t.Errorf("the patch is %s, %v; want %s", made, err, test.want)
			}
		})
	}
}
