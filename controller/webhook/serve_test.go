package webhook_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/controller/webhook"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/rest"
)

// offline creates a server without an API server.
func offline(t *testing.T, log *journal) *webhook.Server {
	t.Helper()
	server, err := webhook.New(&rest.Config{Host: "http://127.0.0.1:1"}, types(), webhook.Options{
		Address: "127.0.0.1:0", Service: "heroes/webhooks", Logger: log.logger(), ShutdownDelay: -1,
	})
	must(t, err)
	return server
}

// review returns a review of a hero, and of the hero before.
func review(operation admissionv1.Operation, object, old string) string {
	raw := func(object string) runtime.RawExtension {
		if object == "" {
			return runtime.RawExtension{}
		}
		return runtime.RawExtension{Raw: []byte(object)}
	}
	encoded, err := json.Marshal(&admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID: "7", Operation: operation, Name: "one", Namespace: "a",
			Kind:   metav1.GroupVersionKind{Group: heroes, Version: "v1", Kind: "Hero"},
			Object: raw(object), OldObject: raw(old),
		},
	})
	if err != nil {
		panic(err)
	}
	return string(encoded)
}

// heroJSON returns a hero as the API server sends it.
func heroJSON(metadata, spec string) string {
	return fmt.Sprintf(`{"apiVersion":"%s/v1","kind":"Hero","metadata":{"name":"one"%s},"spec":{%s}}`, heroes, metadata, spec)
}

// post sends a request to a handler.
func post(handler http.Handler, target, body string, change ...func(*http.Request)) *httptest.ResponseRecorder {
	request := httptest.NewRequest(http.MethodPost, target, strings.NewReader(body))
	request.Header.Set("Content-Type", "application/json")
	for _, each := range change {
		each(request)
	}
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, request)
	return recorder
}

const (
	validatePath = "/validate/" + heroes + "/v1/hero"
	defaultPath  = "/default/" + heroes + "/v1/hero"
)

func answerOf(t *testing.T, recorder *httptest.ResponseRecorder) *admissionv1.AdmissionResponse {
	t.Helper()
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(recorder.Body.Bytes(), &review); err != nil || recorder.Code != http.StatusOK || review.Response == nil || review.Response.UID != "7" || review.Kind != "AdmissionReview" {
		t.Fatalf("the answer is %d %s: %v", recorder.Code, recorder.Body, err)
	}
	return review.Response
}

func TestWhatNoAPIServerSendsIsRefusedWithACode(t *testing.T) {
	log := &journal{}
	server := offline(t, log)
	must(t, webhook.Validate(server, func(context.Context, webhook.Request[*Hero]) error { panic("it is called") }))
	must(t, webhook.Convert(server, toV2, toV1))
	handler := server.Handler()
	good := review(admissionv1.Create, heroJSON("", ""), "")
	for name, test := range map[string]struct {
		target, body string
		change       func(*http.Request)
		code         int
		says         string
	}{
		"GET":                    {validatePath, good, func(r *http.Request) { r.Method = http.MethodGet }, 405, "only POST"},
		"text":                   {validatePath, good, func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") }, 415, "application/json"},
		"no content type":        {validatePath, good, func(r *http.Request) { r.Header.Del("Content-Type") }, 415, "application/json"},
		"another path":           {"/validate", good, nil, 404, ""},
		"a large body":           {validatePath, strings.Repeat(" ", 9<<20), nil, 413, "more than 8388608 bytes"},
		"nothing":                {validatePath, "", nil, 400, "not JSON"},
		"nonsense":               {validatePath, "canary", nil, 400, "not JSON"},
		"another version":        {validatePath, strings.Replace(good, "admission.k8s.io/v1", "admission.k8s.io/v1beta1", 1), nil, 400, "only admission.k8s.io/v1 AdmissionReview"},
		"another kind of review": {validatePath, strings.Replace(good, `"AdmissionReview"`, `"ConversionReview"`, 1), nil, 400, "only admission.k8s.io/v1 AdmissionReview"},
		"no request":             {validatePath, `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}`, nil, 400, "no request"},
		"a request of a number":  {validatePath, `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":7}`, nil, 400, "not a valid AdmissionReview"},
		"no uid":                 {validatePath, strings.Replace(good, `"uid":"7"`, `"uid":""`, 1), nil, 400, "no request with a uid"},
		"another kind":           {validatePath, strings.Replace(good, `"kind":"Hero"`, `"kind":"Villain"`, 1), nil, 400, "this path is for"},
		"an object of a list":    {validatePath, review(admissionv1.Create, `[]`, ""), nil, 500, "decoding"},
		"no conversion request":  {"/convert", `{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview"}`, nil, 400, "no request"},
		"not ready":              {"/readyz", "", func(r *http.Request) { r.Method = http.MethodGet }, 503, "not ready"},
	} {
		t.Run(name, func(t *testing.T) {
			if test.change == nil {
				test.change = func(*http.Request) {}
			}
			recorder := post(handler, test.target, test.body, test.change)
			if recorder.Code != test.code || !strings.Contains(recorder.Body.String(), test.says) || strings.Contains(recorder.Body.String(), "canary") {
				t.Errorf("the answer is %d %s, want %d and %q", recorder.Code, recorder.Body, test.code, test.says)
			}
		})
	}
}

func TestAFunctionThatPanicsOrIsSlowIsAFailureAndNotADenial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &journal{}
		server := offline(t, log)
		must(t, webhook.Validate(server, func(ctx context.Context, request webhook.Request[*Hero]) error {
			switch request.New.Spec.Horse {
			case "panic":
				panic("canary")
			case "slow":
				<-ctx.Done()
				return fmt.Errorf("too slow: %w", ctx.Err())
			default: // It ignores its context.
				<-time.After(time.Minute)
				return nil
			}
		}, webhook.Timeout(20*time.Second)))
		handler := server.Handler()
		send := func(target, horse string) (int, string, time.Duration) {
			begin := time.Now()
			recorder := post(handler, target, review(admissionv1.Create, heroJSON("", `"horse":"`+horse+`"`), ""))
			return recorder.Code, recorder.Body.String(), time.Since(begin)
		}
		code, text, _ := send(validatePath, "panic")
		if code != 500 || strings.Contains(text, "canary") || strings.Contains(text, "serve_test.go") {
			t.Errorf("a panic is answered with %d %s", code, text)
		}
		if !strings.Contains(log.String(), "canary") || !strings.Contains(log.String(), "serve_test.go") {
			t.Errorf("the log lacks the panic or its stack: %s", log)
		}
		for target, want := range map[string]time.Duration{
			"?timeout=3s": 3 * time.Second, "?timeout=30s": 20 * time.Second, "": 20 * time.Second, "?timeout=-1s": 20 * time.Second, "?timeout=x": 20 * time.Second,
		} {
			if code, text, took := send(validatePath+target, "slow"); code != 504 || took != want || !strings.Contains(text, "too long") {
				t.Errorf("%q: a slow function is answered with %d %s after %v, want 504 after %v", target, code, text, took, want)
			}
		}
		if code, _, _ := send(validatePath, "ignorant"); code != 504 {
			t.Errorf("the late answer of a function counts: %d", code)
		}
	})
}

func TestTheErrorOfAFunctionDecidesHowAWriteIsDenied(t *testing.T) {
	server := offline(t, &journal{})
	var result error
	must(t, webhook.Validate(server, func(_ context.Context, request webhook.Request[*Hero]) error {
		request.Warn("seen %s", request.NamespacedName)
		return result
	}))
	path := field.NewPath("spec", "riders")
	for name, test := range map[string]struct {
		err    error
		code   int32
		reason metav1.StatusReason
		causes int
	}{
		"plain":            {errors.New("no"), 403, metav1.StatusReasonForbidden, 0},
		"status":           {apierrors.NewConflict(corev1.Resource("x"), "y", errors.New("no")), 409, metav1.StatusReasonConflict, 0},
		"wrapped status":   {fmt.Errorf("here: %w", apierrors.NewResourceExpired("no")), 410, metav1.StatusReasonExpired, 0},
		"a field":          {field.Required(path, "no"), 422, metav1.StatusReasonInvalid, 1},
		"fields":           {field.ErrorList{field.Required(path, "no"), field.Invalid(path, 1, "no")}.ToAggregate(), 422, metav1.StatusReasonInvalid, 2},
		"fields and other": {errors.Join(field.Required(path, "no"), errors.New("no")), 422, metav1.StatusReasonInvalid, 1},
	} {
		result = test.err
		answer := answerOf(t, post(server.Handler(), validatePath, review(admissionv1.Create, heroJSON("", ""), "")))
		status := answer.Result
		if answer.Allowed || status == nil || status.Code != test.code || status.Reason != test.reason || !strings.Contains(status.Message, "no") {
			t.Errorf("%s: the answer is %+v", name, answer)
			continue
		}
		if causes := status.Details; test.causes > 0 && (causes == nil || len(causes.Causes) != test.causes || causes.Kind != "Hero" || causes.Name != "one") {
			t.Errorf("%s: the details are %+v", name, causes)
		}
		if len(answer.Warnings) != 1 || answer.Warnings[0] != "seen a/one" {
			t.Errorf("%s: the warnings are %q", name, answer.Warnings)
		}
	}
	result = nil
	if answer := answerOf(t, post(server.Handler(), validatePath, review(admissionv1.Create, heroJSON("", ""), ""))); !answer.Allowed || answer.Result != nil {
		t.Errorf("without an error the answer is %+v", answer)
	}
}

func TestAnObjectThatIsBeingDeletedCanLoseItsFinalizers(t *testing.T) {
	server := offline(t, &journal{})
	calls := 0
	must(t, webhook.Validate(server, func(context.Context, webhook.Request[*Hero]) error {
		calls++
		return errors.New("no")
	}))
	must(t, webhook.Default(server, func(_ context.Context, hero *Hero) error {
		hero.Spec.Horse = "arion"
		return nil
	}))
	handler := server.Handler()
	leaving := `,"deletionTimestamp":"2026-01-01T00:00:00Z"`
	with := leaving + `,"finalizers":["a/b"]`
	if answer := answerOf(t, post(handler, validatePath, review(admissionv1.Update, heroJSON(leaving, `"riders":9`), heroJSON(with, `"riders":9`)))); !answer.Allowed || calls > 0 {
		t.Errorf("the removal of a finalizer is validated: %+v", answer)
	}
	if answer := answerOf(t, post(handler, defaultPath, review(admissionv1.Update, heroJSON(leaving, ""), heroJSON(with, "")))); !answer.Allowed || answer.Patch != nil {
		t.Errorf("an object that is being deleted gets defaults: %+v", answer)
	}
	if answer := answerOf(t, post(handler, validatePath, review(admissionv1.Update, heroJSON(leaving, `"riders":8`), heroJSON(with, `"riders":9`)))); answer.Allowed || calls != 1 {
		t.Errorf("a change of the spec is not validated: %+v", answer)
	}
}

func TestAConversionKeepsMetadataAndTakesTheShortestPath(t *testing.T) {
	server := offline(t, &journal{})
	must(t, webhook.Convert(server, func(ctx context.Context, from *Hero, to *HeroV2) error {
		switch from.Spec.Horse {
		case "panic":
			panic("canary")
		case "fail":
			return errors.New("it has no mount")
		}
		if to.Name != from.Name || to.Labels["a"] != "b" || to.UID != from.UID {
			t.Errorf("the new object has the metadata %+v", to.ObjectMeta)
		}
		if from.Spec.Horse == "overwrite" {
			*to = HeroV2{}
		} else {
			to.Annotations["kept"] = "yes"
			to.Name, to.UID, to.ResourceVersion, to.Finalizers = "other", "other", "9", nil
		}
		return toV2(ctx, from, to)
	}, toV1))
	must(t, webhook.Convert(server, func(_ context.Context, from *HeroV2, to *HeroV3) error {
		to.Spec = from.Spec
		to.Annotations["third"] = "yes"
		return nil
	}, func(_ context.Context, from *HeroV3, to *HeroV2) error {
		to.Spec = from.Spec
		return nil
	}))
	handler := server.Handler()
	convert := func(desired string, objects ...string) *apiextensionsv1.ConversionResponse {
		t.Helper()
		request := &apiextensionsv1.ConversionReview{
			TypeMeta: metav1.TypeMeta{APIVersion: "apiextensions.k8s.io/v1", Kind: "ConversionReview"},
			Request:  &apiextensionsv1.ConversionRequest{UID: "7", DesiredAPIVersion: desired},
		}
		for _, object := range objects {
			request.Request.Objects = append(request.Request.Objects, runtime.RawExtension{Raw: []byte(object)})
		}
		encoded, err := json.Marshal(request)
		must(t, err)
		recorder := post(handler, "/convert", string(encoded))
		var review apiextensionsv1.ConversionReview
		if err := json.Unmarshal(recorder.Body.Bytes(), &review); err != nil || review.Response == nil || review.Response.UID != "7" {
			return &apiextensionsv1.ConversionResponse{Result: metav1.Status{Code: int32(recorder.Code), Message: recorder.Body.String()}}
		}
		return review.Response
	}
	metadata := `,"uid":"u","resourceVersion":"5","labels":{"a":"b"},"finalizers":["c/d"],"managedFields":[{"manager":"m"}],"unknown":1`
	answer := convert(heroes+"/v2", heroJSON(metadata, `"horse":"arion"`), heroJSON(metadata, `"horse":"overwrite"`))
	if answer.Result.Status != metav1.StatusSuccess || len(answer.ConvertedObjects) != 2 {
		t.Fatalf("the answer is %+v", answer)
	}
	want := `{"apiVersion":"webhook.bellerophon.io/v2","kind":"Hero","metadata":{"annotations":{"kept":"yes"},"finalizers":["c/d"],"labels":{"a":"b"},` +
		`"managedFields":[{"manager":"m"}],"name":"one","resourceVersion":"5","uid":"u","unknown":1},"spec":{"mount":{"name":"arion","riders":0}}}`
	if got := strings.TrimSpace(string(answer.ConvertedObjects[0].Raw)); got != want {
		t.Errorf("the converted object is\n%s, want\n%s", got, want)
	}
	if got := string(answer.ConvertedObjects[1].Raw); !strings.Contains(got, `"labels":{"a":"b"}`) || !strings.Contains(got, `"uid":"u"`) {
		t.Errorf("a function that overwrites the object loses its metadata: %s", got)
	}
	same := heroJSON(metadata, `"horse":"arion"`)
	if answer := convert(heroes+"/v1", same); answer.Result.Status != metav1.StatusSuccess || string(answer.ConvertedObjects[0].Raw) != same {
		t.Errorf("an object of the desired version is changed: %+v", answer)
	}
	answer = convert(heroes+"/v3", heroJSON(metadata, `"horse":"arion"`))
	if answer.Result.Status != metav1.StatusSuccess || !strings.Contains(string(answer.ConvertedObjects[0].Raw), `"annotations":{"kept":"yes","third":"yes"}`) {
		t.Errorf("through another version the answer is %+v", answer)
	}
	if err := webhook.Covers(server, "v1", "v2", "v3"); err != nil {
		t.Errorf("connected versions: %v", err)
	}
	if err := webhook.Covers(server, "v1", "v4"); err == nil || !strings.Contains(err.Error(), "from version v1 to version v4; add them with Convert") {
		t.Errorf("a version without functions: %v", err)
	}
	for name, test := range map[string]struct{ desired, object, says string }{
		"an error":          {heroes + "/v2", heroJSON(metadata, `"horse":"fail"`), "it has no mount"},
		"a panic":           {heroes + "/v2", heroJSON(metadata, `"horse":"panic"`), "panicked"},
		"another version":   {heroes + "/v4", heroJSON("", ""), "no functions lead from version v1 to version v4"},
		"another group":     {"example.org/v2", heroJSON("", ""), "there is no conversion"},
		"no kind":           {heroes + "/v2", `{"metadata":{}}`, "Kind"},
		"a list":            {heroes + "/v2", `[]`, ""},
		"nonsense versions": {"a/b/c", heroJSON("", ""), "a/b/c"},
	} {
		answer := convert(test.desired, heroJSON(metadata, `"horse":"arion"`), test.object)
		if answer.Result.Status == metav1.StatusSuccess || len(answer.ConvertedObjects) > 0 || !strings.Contains(answer.Result.Message, test.says) || strings.Contains(answer.Result.Message, "canary") {
			t.Errorf("%s: the answer is %+v", name, answer)
		}
	}
}

func TestWrongOptionsAreRefusedByName(t *testing.T) {
	good := webhook.Options{Service: "heroes/webhooks"}
	for want, change := range map[string]func(*webhook.Options){
		"Service and URL are empty":         func(o *webhook.Options) { o.Service = "" },
		"give one of them":                  func(o *webhook.Options) { o.URL = "https://x" },
		"Service is \"webhooks\"":           func(o *webhook.Options) { o.Service = "webhooks" },
		"Service is \"a/B\"":                func(o *webhook.Options) { o.Service = "a/B" },
		"its port as a number":              func(o *webhook.Options) { o.Service = "a/b:https" },
		"URL is \"http://x\"":               func(o *webhook.Options) { o.Service, o.URL, o.Name = "", "http://x", "n" },
		"leave out the path":                func(o *webhook.Options) { o.Service, o.URL, o.Name = "", "https://x/y", "n" },
		"Name is empty":                     func(o *webhook.Options) { o.Service, o.URL = "", "https://x" },
		"Name is \"A B\"":                   func(o *webhook.Options) { o.Name = "A B" },
		"ClusterRole is \"a/b\"":            func(o *webhook.Options) { o.ClusterRole = "a/b" },
		"Address is \"9443\"":               func(o *webhook.Options) { o.Address = "9443" },
		"ShutdownDelay is 2h0m0s":           func(o *webhook.Options) { o.ShutdownDelay = 2 * time.Hour },
		"Grace is -1s":                      func(o *webhook.Options) { o.Grace = -time.Second },
		"Certificates.Secret is \"x\"":      func(o *webhook.Options) { o.Certificates.Secret = "x" },
		"Certificates.External is set":      func(o *webhook.Options) { o.Certificates.External = true },
		"Certificates.Lifetime is 1m0s":     func(o *webhook.Options) { o.Certificates.Lifetime = time.Minute },
		"does not issue these certificates": func(o *webhook.Options) { o.Certificates = webhook.Certificates{Folder: "x", Lifetime: time.Hour} },
		"Folder together with Secret":       func(o *webhook.Options) { o.Certificates = webhook.Certificates{Folder: "x", Secret: "a/b"} },
	} {
		options := good
		change(&options)
		if _, err := webhook.New(&rest.Config{}, types(), options); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want %q", err, want)
		}
	}
	server := offline(t, &journal{})
	allow := func(context.Context, webhook.Request[*Hero]) error { return nil }
	for want, options := range map[string][]webhook.Option{
		"Timeout is 1.5s":        {webhook.Timeout(1500 * time.Millisecond)},
		"Timeout is 31s":         {webhook.Timeout(31 * time.Second)},
		"On names no operation":  {webhook.On()},
		"On has \"PATCH\"":       {webhook.On("PATCH")},
		"On has CREATE twice":    {webhook.On(admissionv1.Create, admissionv1.Create)},
		"FailurePolicy is \"x\"": {webhook.FailurePolicy("x")},
		"ObjectSelector":         {webhook.ObjectSelector(metav1.LabelSelector{MatchLabels: map[string]string{"a": "b c"}})},
		"NamespaceSelector":      {webhook.NamespaceSelector(metav1.LabelSelector{MatchLabels: map[string]string{"a b": "c"}})},
		"MatchCondition":         {webhook.MatchCondition("x", " ")},
	} {
		if err := webhook.Validate(server, allow, options...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want %q", err, want)
		}
	}
	must(t, webhook.Validate(server, allow, webhook.AllNamespaces(), webhook.FailurePolicy(admissionregistrationv1.Ignore)))
	for want, err := range map[string]error{
		"has a function already": webhook.Validate(server, allow),
		"calls no webhooks for this": webhook.Validate(server, func(context.Context, webhook.Request[*admissionregistrationv1.ValidatingWebhookConfiguration]) error {
			return nil
		}),
		"defaults are set at":      webhook.Default(server, func(context.Context, *Hero) error { return nil }, webhook.On(admissionv1.Delete)),
		"add its package":          webhook.Default(server, func(context.Context, *stranger) error { return nil }),
		"two versions of one kind": webhook.Convert(server, func(context.Context, *Hero, *Hero) error { return nil }, func(context.Context, *Hero, *Hero) error { return nil }),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want %q", err, want)
		}
	}
	if err := offline(t, &journal{}).Run(t.Context()); err == nil || !strings.Contains(err.Error(), "has no functions") {
		t.Errorf("without functions Run returns %v", err)
	}
}

// stranger is a type that is in no scheme.
type stranger struct{ Hero }
