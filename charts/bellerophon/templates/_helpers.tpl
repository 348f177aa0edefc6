{{- define "bellerophon.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- define "bellerophon.labels" -}}
{{ include "bellerophon.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{/* The label of pods that a NetworkPolicy of this chart lets connect to members. */}}
{{- define "bellerophon.client" -}}
{{ .Release.Name }}-client: "true"
{{- end }}

{{- define "bellerophon.image" -}}
{{- $image := .Values.image }}
{{- if $image.digest }}
{{- printf "%s@%s" $image.repository $image.digest }}
{{- else }}
{{- printf "%s:%s" $image.repository ($image.tag | default .Chart.AppVersion) }}
{{- end }}
{{- end }}

{{/* The settings, as environment variables of the members. */}}
{{- define "bellerophon.config" -}}
{{- range $name, $value := .Values.config }}
{{ printf "BELLEROPHON_%s: %s" ($name | upper | replace "-" "_") ($value | quote) }}
{{- end }}
{{- end }}
