# ruff: noqa: E501
"""Small files in the shape that programs write them, for all formats of string tables."""

XLIFF_1 = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE xliff PUBLIC "-//XLIFF//DTD XLIFF//EN" "http://www.oasis-open.org/committees/xliff/documents/xliff.dtd">
<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">
  <file original="app.html" source-language="en" datatype="html">
    <body>
      <group id="menu">
        <trans-unit id="a1" maxwidth="20" size-unit="char">
          <source>Press <g id="1">Enter</g> &amp; wait<x id="2"/></source>
          <note>A button</note>
        </trans-unit>
        <trans-unit id='a2' approved="yes">
          <source>Größe</source>
          <target state="final">Tamanho</target>
        </trans-unit>
        <trans-unit id="a3"><source>Two <bpt id="1">&lt;b&gt;</bpt>bold<ept id="1">&lt;/b&gt;</ept></source><target/></trans-unit>
        <trans-unit id="a4" translate="no"><source>CODE</source></trans-unit>
        <trans-unit id="a5">
          <source>Old "text"</source>
          <target state="needs-review-translation">Texto &quot;velho&quot;</target>
        </trans-unit>
      </group>
    </body>
  </file>
</xliff>
"""
XLIFF_2 = """<?xml version="1.0"?>
<xliff xmlns="urn:oasis:names:tc:xliff:document:2.0" version="2.0" srcLang="en" trgLang="pt">
 <file id="f1">
  <unit id="u1">
   <originalData><data id="d1">&lt;br/&gt;</data></originalData>
   <segment id="s1">
    <source>First <pc id="1">part</pc>.<ph id="2" dataRef="d1"/></source>
   </segment>
   <ignorable><source> </source></ignorable>
   <segment state="translated"><source>Second <sc id="3"/>one<ec startRef="3"/>.</source><target>Segundo <sc id="3"/>um<ec startRef="3"/>.</target></segment>
  </unit>
 </file>
</xliff>
"""
TMX = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE tmx SYSTEM "tmx14.dtd">
<tmx version="1.4">
  <header creationtool="x" segtype="sentence" srclang="en-US" datatype="plaintext"/>
  <body>
    <tu tuid="1">
      <note>from the manual</note>
      <tuv xml:lang="en-US"><seg>Open the file.</seg></tuv>
      <tuv xml:lang="de"><seg>Öffnen Sie die Datei.</seg></tuv>
    </tu>
    <tu>
      <tuv xml:lang="en-US"><seg>Click <bpt i="1">&lt;b&gt;</bpt>here<ept i="1">&lt;/b&gt;</ept>.</seg></tuv>
      <tuv xml:lang="pt-BR"><seg>Clique <bpt i="1">&lt;b&gt;</bpt>aqui<ept i="1">&lt;/b&gt;</ept>.</seg></tuv>
    </tu>
  </body>
</tmx>
"""
TBX = """<?xml version="1.0" encoding="UTF-8"?>
<martif type="TBX" xml:lang="en"><text><body>
  <termEntry id="c1">
    <langSet xml:lang="en"><tig><term>hard disk</term></tig></langSet>
  </termEntry>
  <termEntry id="c2">
    <langSet xml:lang="en"><tig><term>mouse</term></tig></langSet>
    <langSet xml:lang="pt"><tig><term>rato</term></tig></langSet>
  </termEntry>
</body></text></martif>
"""
ANDROID = """<?xml version="1.0" encoding="utf-8"?>
<!-- Copyright -->
<resources xmlns:xliff="urn:oasis:names:tc:xliff:document:1.2" xmlns:tools="http://schemas.android.com/tools">
    <!-- Title of the app -->
    <string name="app_name" translatable="false">Fixed</string>
    <string name="greeting">Don\\'t panic, <b>%1$s</b>!\\nBye</string>
    <string name="quoted">"  two  spaces "</string>
    <string name="html"><![CDATA[See <a href="https://example.org">the page</a>]]></string>
    <string name="count">You have <xliff:g id="number" example="5">%d</xliff:g> points</string>
    <string name="other">@string/greeting</string>
    <plurals name="files">
        <item quantity="one">%d file</item>
        <item quantity="other">%d files</item>
    </plurals>
    <string-array name="days"><item>Monday</item><item>Tuesday</item></string-array>
</resources>
"""
STRINGS = """/* Title of the window */
"title" = "My \\"files\\"";

// Another one
"count" = "%d items\\nof %@";
plain = "Done";
"""
STRINGSDICT = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0">
<dict>
	<key>%d files</key>
	<dict>
		<key>NSStringLocalizedFormatKey</key>
		<string>%#@files@</string>
		<key>files</key>
		<dict>
			<key>NSStringFormatSpecTypeKey</key>
			<string>NSStringPluralRuleType</string>
			<key>one</key>
			<string>%d file</string>
			<key>other</key>
			<string>%d files</string>
		</dict>
	</dict>
</dict>
</plist>
"""
XCSTRINGS = """{
  "sourceLanguage" : "en",
  "strings" : {
    "" : {

    },
    "%lld files" : {
      "comment" : "Number of files",
      "localizations" : {
        "en" : {
          "variations" : {
            "plural" : {
              "one" : {
                "stringUnit" : {
                  "state" : "translated",
                  "value" : "%lld file"
                }
              },
              "other" : {
                "stringUnit" : {
                  "state" : "translated",
                  "value" : "%lld files"
                }
              }
            }
          }
        }
      }
    },
    "Close" : {
      "extractionState" : "manual",
      "localizations" : {
        "de" : {
          "stringUnit" : {
            "state" : "translated",
            "value" : "Schließen"
          }
        },
        "pt" : {
          "stringUnit" : {
            "state" : "needs_review",
            "value" : "Fechar"
          }
        },
        "zh-Hans" : {
          "stringUnit" : {
            "state" : "translated",
            "value" : "关闭"
          }
        }
      }
    },
    "Gone" : {
      "extractionState" : "stale"
    },
    "Open “%@”" : {

    },
    "Swift" : {
      "shouldTranslate" : false
    },
    "Tap here" : {
      "localizations" : {
        "en" : {
          "variations" : {
            "device" : {
              "mac" : {
                "stringUnit" : {
                  "state" : "translated",
                  "value" : "Click here"
                }
              },
              "other" : {
                "stringUnit" : {
                  "state" : "translated",
                  "value" : "Tap here"
                }
              }
            }
          }
        },
        "fr" : {
          "stringUnit" : {
            "state" : "translated",
            "value" : "Touchez ici"
          }
        }
      }
    }
  },
  "version" : "1.0"
}"""
RESX = """<?xml version="1.0" encoding="utf-8"?>
<root>
  <resheader name="version"><value>2.0</value></resheader>
  <data name="Title" xml:space="preserve"><value>Save &amp; close</value><comment>button</comment></data>
  <data name="Icon" type="System.Drawing.Icon"><value>AAAB</value></data>
</root>
"""
TS = """<?xml version="1.0" encoding="utf-8"?>
<!DOCTYPE TS>
<TS version="2.1" language="pt_PT">
<context>
    <name>MainWindow</name>
    <message>
        <location filename="main.cpp" line="5"/>
        <source>&amp;Open</source>
        <translation type="unfinished"></translation>
    </message>
    <message numerus="yes">
        <source>%n file(s)</source>
        <translation type="unfinished">
            <numerusform></numerusform>
            <numerusform></numerusform>
        </translation>
    </message>
    <message>
        <source>Gone</source>
        <translation type="vanished">Fora</translation>
    </message>
</context>
</TS>
"""
PROPERTIES = """# Title
title = Welcome to \\
    the program
message: It''s {0}
empty=
other\\ key=caf\\u00e9
"""
JSON = """{
  "@@locale": "en",
  "title": "Hello, {{name}}",
  "menu": { "open": "Open…", "close": "Close", "size": 12 },
  "file_one": "{{count}} file", "file_other": "{{count}} files",
  "list": ["first", true, "second"],
  "about": "About", "@about": {"description": "Menu entry"}
}
"""
YAML = """# Locale
en:
  greeting: Hello   # shown first
  quoted: "Say \\"hi\\""
  single: 'It''s'
  yes_word: "yes"
  long: |
    Two lines
    of text

  count:
    one: 1 file
    other: "%{count} files"
  number: 12
"""
CSV = '''id,source,target,comment
1,"Hello, world",,greeting
2,"Say ""no""",Diga não,
3,Done
'''
SAMPLES: dict[str, tuple[str, str]] = {
    "xliff1": ("a.xlf", XLIFF_1),
    "xliff2": ("b.xliff", XLIFF_2),
    "tmx": ("a.tmx", TMX),
    "tbx": ("a.tbx", TBX),
    "android": ("strings.xml", ANDROID),
    "strings": ("Localizable.strings", STRINGS),
    "stringsdict": ("Localizable.stringsdict", STRINGSDICT),
    "xcstrings": ("Localizable.xcstrings", XCSTRINGS),
    "resx": ("Resources.resx", RESX),
    "ts": ("app_pt.ts", TS),
    "properties": ("messages.properties", PROPERTIES),
    "json": ("en.json", JSON),
    "yaml": ("en.yml", YAML),
    "csv": ("texts.csv", CSV),
}
"""Name and content by format."""
